import { Ajv } from 'ajv'
import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import type { Chain } from '../../../core/model/engine/contract.ts'
import { generate } from '../../../core/model/engine/generate.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { onlyToken, type TokenConstraint } from '../../../core/model/grammar/grammar.ts'
import { askAgent } from '../../cluster/ask-agent.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { startShapedLink } from '../../cluster/shaped-link.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { randomSchema } from '../../random-schema.ts'
import { readDemoModel } from '../demo-model.ts'
import { type StructuredRun, showStructured, structuredFigures, type TurnRun } from './report.ts'
import { askTurns } from './turns.ts'

const quickAnswers = 60
/** Answers over the link, of each kind. */
const trips = { quick: 6, full: 40 } as const
const maxTokens = 800

const options = {
  answers: z.int().min(1).default(1_000).describe('answers, each to a schema of its own'),
  seed: z.int().min(0).default(1).describe('seed of the schemas and of sampling'),
  rttMs: z.number().min(0).default(40).describe('round trip of the link between device and bridge'),
}

export const structuredBench = tabledBench<StructuredRun, typeof options>({
  name: 'structured',
  title: 'Structured answers',
  contents: 'every answer: its schema, text and times',
  figureText: 'Time of a mask, and time between tokens of a device',
  options,
  examples: [['brim bench structured --answers 200 --rtt-ms 80', 'fewer answers, on a slower link']],
  figures: structuredFigures,
  measure,
  show: showStructured,
})

export const command = benchCommand(structuredBench)

async function measure(context: BenchContext, { seed, rttMs, ...given }: z.output<z.ZodObject<typeof options>>) {
  const answers = context.quick ? Math.min(given.answers, quickAnswers) : given.answers
  const { bundle, text, dialogues, conditions } = await readDemoModel()
  const prompt = dialogues[0]!.ids
  const model = await openBundle(bundle, { library: context.io.env.ORT_LIB, parts: 'chain', threads: 1 })
  const chain = new TimedChain(model.chain({ cuts: 'half' }))
  const random = seededRandom(seed)
  const runs: StructuredRun[] = []
  try {
    for (let at = 0; at < answers; at++) {
      const schema = randomSchema(random)
      const constraint = await text.grammars!.open({ kind: 'schema', schema: JSON.stringify(schema), strict: true })
      const timed = new TimedConstraint(constraint, chain)
      const sampling = { temperature: at % 4 === 0 ? 0 : 1, topK: 0, topP: 1, seed: seed + at }
      const startedMs = performance.now()
      const asked = { promptIds: prompt, constraint: timed, maxTokens, sampling, clock: systemClock, signal: context.io.signal }
      const tokens: number[] = []
      for await (const event of generate(chain, undefined, asked)) if (event.kind === 'token') tokens.push(event.token)
      constraint.release()
      const answer = text.tokenizer.decode(tokens, { skipSpecialTokens: true })
      runs.push({
        kind: 'schema',
        schema,
        text: answer,
        isValid: isValid(schema, answer),
        tokens: tokens.length,
        forced: timed.forced,
        maskUs: timed.maskUs,
        waitedMs: timed.waitedMs,
        totalMs: performance.now() - startedMs,
      })
      if (at % 50 === 49) context.progress(`${at + 1} of ${answers} answers`)
    }
  } finally {
    await model.release()
  }
  context.progress('starting a bridge and a device')
  const count = context.quick ? trips.quick : trips.full
  await using device = await startLinkedDevice(context.io, bundle, rttMs, seed)
  runs.push(...(await overLink(context, device, { count, seed })))
  runs.push(...(await turns(context, device, { text, dialogues, count, seed })))
  return { conditions: { ...conditions, answers, seed, rttMs, trips: count }, runs }
}

/** Says when its last step ended. */
class TimedChain implements Chain {
  /** Of `performance.now()`; undefined during a step. */
  endedMs: number | undefined = 0
  readonly #chain: Chain

  constructor(chain: Chain) {
    this.#chain = chain
  }

  get manifest() {
    return this.#chain.manifest
  }

  createSequence() {
    return this.#chain.createSequence()
  }

  async step(items: Parameters<Chain['step']>[0]) {
    this.endedMs = undefined
    const logits = await this.#chain.step(items)
    this.endedMs = performance.now()
    return logits
  }
}

/** Takes the time of each mask, and counts those that leave one token. */
class TimedConstraint implements TokenConstraint {
  readonly maskUs: number[] = []
  waitedMs = 0
  forced = 0
  readonly #constraint: TokenConstraint
  readonly #chain: TimedChain

  constructor(constraint: TokenConstraint, chain: TimedChain) {
    this.#constraint = constraint
    this.#chain = chain
  }

  async after(beginnings: readonly (readonly number[])[]) {
    const startedMs = performance.now()
    const masks = await this.#constraint.after(beginnings)
    const repliedMs = performance.now()
    this.maskUs.push((repliedMs - startedMs) * 1_000)
    this.waitedMs += repliedMs - Math.max(startedMs, this.#chain.endedMs ?? repliedMs)
    for (const mask of masks) if (mask && onlyToken(mask) !== undefined) this.forced += 1
    return masks
  }

  forcedAfter(beginning: readonly number[]) {
    return this.#constraint.forcedAfter(beginning)
  }

  release(): void {}
}

function isValid(schema: object, text: string): boolean {
  try {
    return new Ajv({ strict: false, validateFormats: false }).validate(schema, JSON.parse(text)) === true
  } catch {
    return false
  }
}

type LinkedDevice = Awaited<ReturnType<typeof startLinkedDevice>>

interface LinkOptions {
  readonly count: number
  readonly seed: number
}

/** A record as programs ask for: names of fields are known before they are written. */
const record = {
  type: 'object',
  properties: {
    customer_name: { type: 'string', maxLength: 20 },
    order_number: { type: 'integer', minimum: 1, maximum: 99_999 },
    delivery_status: { enum: ['delivered', 'under way', 'returned'] },
    needs_confirmation: { type: 'boolean' },
  },
  required: ['customer_name', 'order_number', 'delivery_status', 'needs_confirmation'],
  additionalProperties: false,
}

/** Private answers with a schema and free ones in turn, by a device that is this far from its bridge. */
async function overLink({ io }: BenchContext, device: LinkedDevice, { count, seed }: LinkOptions): Promise<StructuredRun[]> {
  const messages = [{ role: 'user', content: 'Make up an order.' }]
  const runs: StructuredRun[] = []
  for (let at = 0; at < 2 * count; at++) {
    const isFree = at % 2 === 1
    const json_schema = { name: 'order', schema: record, strict: true }
    const form = isFree ? {} : { response_format: { type: 'json_schema' as const, json_schema } }
    const asked = { model: 'brim', messages, temperature: 1, seed: seed + at, max_tokens: 60, ...form }
    const { report } = await askAgent(device.apiUrl, asked, io.signal)
    const { tokenIds, rounds, tpotMs } = report
    runs.push({ kind: isFree ? 'free' : 'record', tokens: tokenIds.length, rounds, tpotMs: Number(tpotMs) })
  }
  return runs
}

interface TurnsOfBench extends LinkOptions {
  readonly text: Awaited<ReturnType<typeof readDemoModel>>['text']
  readonly dialogues: Awaited<ReturnType<typeof readDemoModel>>['dialogues']
}

/** Conversations of two turns with a device over the link, and with its bridge, in turn. */
async function turns(
  context: BenchContext,
  device: LinkedDevice,
  { text, dialogues, count, seed }: TurnsOfBench,
): Promise<TurnRun[]> {
  const random = seededRandom(seed)
  const { tokenizer } = text
  const texts = dialogues.map(({ ids }) => ids)
  const runs: TurnRun[] = []
  for (let at = 0; at < 2 * count; at++) {
    const door =
      at % 2 === 0 ? { server: 'agent' as const, url: device.apiUrl } : { server: 'bridge' as const, url: device.bridgeUrl }
    runs.push(await askTurns({ ...door, tokenizer, texts, random, signal: context.io.signal }))
  }
  return runs
}

function startLinkedDevice(io: Io, bundle: string, rttMs: number, seed: number) {
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const { mqttUrl, dataUrl, httpUrl } = (await cluster.startBridge()).ready
    const url = new URL(dataUrl)
    const direction = { rates: { intervalMs: 1_000, bytesPerS: [10e6] }, delayMs: rttMs / 2, jitterMs: 0 }
    const random = seededRandom(seed)
    const link = await cluster.attach(
      startShapedLink({ target: Number(url.port), shape: { up: direction, down: direction }, random }),
    )
    url.port = String(link.port)
    const agent = await cluster.startAgent({ id: 'device', bridges: [mqttUrl], args: ['--data-url', url.href] })
    return { apiUrl: agent.ready.apiUrl, bridgeUrl: httpUrl }
  })
}
