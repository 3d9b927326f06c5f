import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import type { TextTokenizer } from '../../../core/model/text/tokenizer.ts'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import type { Spending } from '../../../core/wire/protocol/spending.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { maxOf } from '../../frame/statistics.ts'
import { type Asked, type BillingServer, honest, type Manner, startBillingServer } from './billing-server.ts'
import type { Instruction } from './data.ts'

/** An agent's answers of a server that charges for tokens, beside what went over the wire. */
export interface WireRun {
  readonly measured: 'wire'
  readonly server: 'honest' | 'honest, readers leave' | '200 at once' | 'misreports' | 'falls silent'
  readonly requests: number
  readonly served: number
  readonly booksDollars: number
  readonly wireDollars: number
  readonly capDollars: number
  /** Longest wait of a reader who has read all that there was, in s; null: not measured. */
  readonly maxGapS: number | null
}

interface WireOptions {
  readonly bundle: string
  readonly smallModel: string
  readonly tokenizer: TextTokenizer
  readonly instructions: readonly Instruction[]
  /** Of each scene's requests. */
  readonly share: number | undefined
  readonly io: Io
  progress(line: string): void
}

/** One kind of server, and what it is asked. */
interface Scene {
  readonly server: WireRun['server']
  readonly capDollars: number
  readonly requests: number
  /** Requests at a time. */
  readonly atOnce: number
  readonly manner: (nth: number) => Manner
  /** Answers before, which are read to their end and not counted; the readers of the others leave after some text. */
  readonly leavesAfter?: number
  readonly maxTokens?: number
  /** Of readers; absent: not stated. */
  readonly tokensPerS?: (nth: number) => number
}

const dollarsPerMillion = { prompt: 2, output: 20 }
const prices = { prompt: dollarsPerMillion.prompt / 1e6, output: dollarsPerMillion.output / 1e6 }
/** Of the server's own instructions. */
const ownTokens = 40
const plenty = 10
const little = 0.02

const streamed: Manner = { ...honest, gapMs: 2 }
/** In each field and at the end of the stream. */
const misreports: readonly Manner[] = [
  { perEvent: 25, usage: 'small', ending: 'both' },
  { perEvent: 1_000, usage: 'none', ending: 'reason' },
  { perEvent: 3, usage: 'huge', ending: 'done' },
  { perEvent: 1, usage: 'negative', ending: 'neither' },
  { perEvent: 7, usage: 'text', ending: 'both', exceeds: true },
  { perEvent: 5, usage: 'half', ending: 'both', exceeds: true },
]
const scenes: readonly Scene[] = [
  // Half of them pack several tokens into an event. The last third comes without a count.
  {
    server: 'honest',
    capDollars: plenty,
    requests: 48,
    atOnce: 4,
    manner: (nth) => ({ ...streamed, perEvent: nth % 2 === 0 ? 1 : 4, usage: nth >= 32 ? 'none' : 'exact' }),
  },
  { server: 'honest, readers leave', capDollars: plenty, requests: 12, atOnce: 4, manner: () => streamed, leavesAfter: 4 },
  { server: '200 at once', capDollars: little, requests: 200, atOnce: 200, manner: () => ({ ...streamed, perEvent: 5 }) },
  { server: 'misreports', capDollars: little, requests: 60, atOnce: 20, manner: (nth) => misreports[nth % misreports.length]! },
  {
    server: 'falls silent',
    capDollars: plenty,
    requests: 9,
    maxTokens: 40,
    atOnce: 1,
    manner: (nth) => ({ ...streamed, gapMs: 20, silentAfter: 6 + 3 * nth }),
    tokensPerS: (nth) => [0, 10, 30][nth % 3]!,
  },
]

/** Agents with a budget, each at a server on loopback that charges in its own way. */
export async function measureOverWire({ share = 1, ...options }: WireOptions): Promise<WireRun[]> {
  const runs: WireRun[] = []
  for (const scene of scenes) {
    const run = await measureScene({ ...scene, requests: Math.ceil(share * scene.requests) }, options)
    runs.push(run)
    const { server, served, requests, booksDollars, wireDollars, maxGapS } = run
    const gap = maxGapS === null ? '' : `, longest wait ${maxGapS.toFixed(2)} s`
    options.progress(
      `${server}: ${served} of ${requests} answers, books over wire ${(booksDollars / wireDollars).toFixed(3)}${gap}`,
    )
  }
  return runs
}

async function measureScene(scene: Scene, options: Omit<WireOptions, 'share'>): Promise<WireRun> {
  const { bundle, smallModel, tokenizer, instructions, io } = options
  const isExact = scene.server.startsWith('honest')
  const count = (text: string) => (isExact ? tokenizer.encode(text, { addSpecialTokens: false }).length : wordsIn(text).length)
  const texts = instructions.filter(({ answer }) => isAscii(answer))
  await using server = await startBillingServer({
    prices,
    promptTokens: ({ messages }) => ownTokens + messages.reduce((sum, { content }) => sum + count(content), 0),
    answer: (asked) => {
      const { answer } = texts.find(({ question }) => question === questionIn(asked))!
      if (!isExact) return wordsIn(answer).map((word) => ` ${word}`)
      return [...tokenizer.encode(answer, { addSpecialTokens: false })].map((id) => Buffer.from(tokenizer.bytesOf(id)).toString())
    },
    manner: scene.manner,
    clock: systemClock,
  })
  await using cluster = await Cluster.create({ bundle, env: io.env, signal: io.signal })
  const { ready } = await cluster.startAgent({
    id: 'phone',
    // Nothing listens there: these answers need no bridge.
    bridges: ['mqtt://127.0.0.1:1'],
    args: [
      ...['--slm', smallModel, '--server', server.url, '--server-model', 'large', '--mode', 'cloud'],
      ...[
        '--server-price',
        `${dollarsPerMillion.prompt}/${dollarsPerMillion.output}`,
        '--budget-dollars',
        String(scene.capDollars),
      ],
      ...['--limit', 'serverIdleS=30', '--limit', 'serverRetries=0'],
    ],
  })
  const answers: ReadAnswer[] = []
  const ask = async (requests: number, leaves: boolean) => {
    for (let at = 0; at < requests; at += scene.atOnce) {
      const nths = Array.from({ length: Math.min(scene.atOnce, requests - at) }, (_, i) => at + i)
      const asked = nths.map((nth) => read(ready.apiUrl, texts[nth % texts.length]!, nth, { ...scene, leaves }, io.signal))
      answers.push(...(await Promise.all(asked)))
    }
  }
  const { leavesAfter = 0 } = scene
  await ask(leavesAfter, false)
  const before = await settled(ready.apiUrl, server, io.signal)
  answers.length = 0
  await ask(scene.requests, leavesAfter > 0)
  const after = await settled(ready.apiUrl, server, io.signal)
  return {
    measured: 'wire',
    server: scene.server,
    requests: scene.requests,
    served: answers.filter(({ isServed }) => isServed).length,
    booksDollars: after.booksDollars - before.booksDollars,
    wireDollars: after.wireDollars - before.wireDollars,
    capDollars: scene.capDollars,
    maxGapS: scene.tokensPerS ? Math.max(...answers.map(({ maxGapS }) => maxGapS)) : null,
  }
}

const isAscii = (text: string) => /^[\x20-\x7e\n]+$/.test(text)
const wordsIn = (text: string) => text.split(/\s+/).filter(Boolean)
const questionIn = ({ messages }: Asked) => messages.at(0)!.content

interface ReadAnswer {
  readonly isServed: boolean
  readonly maxGapS: number
}

/** After which a reader leaves. */
const readPieces = 10

async function read(
  url: string,
  { question }: Instruction,
  nth: number,
  { leaves, tokensPerS, maxTokens = 120 }: Scene & { readonly leaves: boolean },
  signal: AbortSignal,
): Promise<ReadAnswer> {
  const rate = tokensPerS?.(nth)
  const leaving = new AbortController()
  const arrivedMs: number[] = []
  const body = {
    messages: [{ role: 'user' as const, content: question }],
    max_tokens: maxTokens,
    temperature: 0,
    brim: rate === undefined ? {} : { fallback: 'slm' as const, tokens_per_s: rate },
  }
  const listeners = {
    onText() {
      arrivedMs.push(systemClock.nowMs())
      if (leaves && arrivedMs.length === readPieces) leaving.abort()
    },
  }
  const isServed = await streamAnswerFrom({ server: 'agent', url }, body, AbortSignal.any([signal, leaving.signal]), listeners)
    .then(() => true)
    .catch((error: unknown) => {
      signal.throwIfAborted()
      if (!leaving.signal.aborted && !(error instanceof BrimError)) throw error
      return false
    })
  // The time that the reader needs for the piece before is no wait.
  const readMs = rate ? 1_000 / rate : 0
  const gaps = arrivedMs.slice(1).map((ms, at) => ms - arrivedMs[at]! - readMs)
  return { isServed, maxGapS: Math.max(0, ...gaps) / 1_000 }
}

/** What the agent has booked once nothing is reserved, and what its server has charged. */
async function settled(apiUrl: string, server: BillingServer, signal: AbortSignal) {
  for (;;) {
    const { server: spent } = (await (await fetch(`${apiUrl}/budget`, { signal })).json()) as Spending
    if (spent.reservedDollars === 0) return { booksDollars: spent.dollars ?? 0, wireDollars: server.dollars }
    await systemClock.sleep(50, signal)
  }
}

const of = (runs: readonly WireRun[], server: WireRun['server']) => runs.find((run) => run.server === server)

const ratioOf = (run: WireRun | undefined) => (run ? run.booksDollars / run.wireDollars : null)

/** What the books of honest servers say, over what went over the wire. */
export const budgetOverWire = (runs: readonly WireRun[]) => ratioOf(of(runs, 'honest'))

/** The same of answers whose readers leave. */
export const budgetOverWireLeft = (runs: readonly WireRun[]) => ratioOf(of(runs, 'honest, readers leave'))

/** How far a cap was exceeded over the wire, as a part of it; the largest over all servers. */
export function overCap(runs: readonly WireRun[]): number | null {
  return maxOf(runs.map(({ wireDollars, capDollars }) => Math.max(0, wireDollars / capDollars - 1)))
}

export const maxGapS = (runs: readonly WireRun[]) => of(runs, 'falls silent')?.maxGapS ?? null
