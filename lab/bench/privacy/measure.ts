import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { openCheckpoint } from '../../../core/model/bundle/checkpoint.ts'
import { codeStates } from '../../../core/model/coding/code-states.ts'
import { logprobsOf } from '../../../core/model/engine/logprobs.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { type Attack, auditPrivacy } from '../../../core/model/privacy/audit.ts'
import { onWire, type Sending, statesOf } from '../../../core/model/privacy/observation.ts'
import { fromStates } from '../../../core/wire/protocol/states.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { qwen05bConfig, tinyLlamaConfig, writeRandomCheckpoint } from '../../random-checkpoint.ts'
import { acceptLengthOf } from './accept-length.ts'
import { estimatedRotation, noisy, randomRotation, rotationOfPairs, transposed, turned, turnedRows } from './disguises.ts'
import { type FramesPlan, type FramesRun, framesRuns } from './frames-runs.ts'
import { readLearnedCut } from './learned-cut.ts'
import { type Texts, type TextsPlan, textsFor } from './texts.ts'

/** One attack on one way of sending. */
export interface AttackRun {
  readonly kind: 'attack'
  readonly model: string
  readonly split: number
  readonly layers: number
  readonly sending: string
  readonly attack: Attack
  readonly text: 'prompt' | 'answer'
  readonly texts: number
  readonly tokens: number
  readonly top1: number
  /** Ends of its 95 % interval. */
  readonly top1Low: number
  readonly top1High: number
  readonly top10: number
  readonly rougeL: number
  /** Null: the texts have none. */
  readonly entities: number | null
  readonly seconds: number
  /** Of the LLM with these states, over plain ones: of the recorded answers. */
  readonly perplexityRatio: number
  /** Share of their positions at which the likeliest token is the same. */
  readonly sameTokens: number
  /** Tokens of a round with the demonstration's adapter. Null: not measured. */
  readonly acceptLength: number | null
}

export type PrivacyRun = AttackRun | FramesRun

export interface PrivacyPlan extends TextsPlan {
  readonly answerTokens: number
  readonly splits: readonly number[]
  readonly noises: readonly number[]
  /** Whether the pairs of models/demo/cuts are attacked. */
  readonly cuts: boolean
  /** Share of their size by which the bridge's weights differ from the public ones. */
  readonly changes: readonly number[]
  /** Rows of known tokens from which an attacker estimates the rotation. */
  readonly pairs: readonly number[]
  /** Whether models with random weights are attacked, too. */
  readonly others: boolean
  /** Absent: no frames are recorded. */
  readonly frames?: FramesPlan | undefined
}

export const fullPlan: PrivacyPlan = {
  ...{
    prompts: 40,
    training: 120,
    promptTokens: 96,
    answerTokens: 32,
    splits: [1, 2, 4, 8],
    noises: [0.25, 0.5, 1, 2, 3, 5, 10],
  },
  ...{ cuts: true, changes: [0, 0.1, 1], pairs: [8, 32, 128, 512], others: true },
  frames: { prompts: 16, repeats: 8, answerTokens: 32, intervalsMs: [30, 60, 120, 240] },
}
export const quickPlan: PrivacyPlan = {
  ...{ prompts: 4, training: 60, promptTokens: 48, answerTokens: 12, splits: [1, 2], noises: [0.5, 1, 2] },
  ...{ cuts: true, changes: [0.1], pairs: [32, 128], others: true },
  frames: { prompts: 12, repeats: 5, answerTokens: 32, intervalsMs: [30, 60, 120] },
}

/** Of the demonstration LLM. */
const demoCheckpoint = fileURLToPath(new URL('models/demo/llm', projectRoot))
const cutsFolder = fileURLToPath(new URL('models/demo/cuts', projectRoot))

export async function measurePrivacy(plan: PrivacyPlan, context: BenchContext): Promise<PrivacyRun[]> {
  const folder = await mkdtemp(join(tmpdir(), 'brim-privacy-'))
  const runs: PrivacyRun[] = []
  const measure = async (checkpoint: string, name: string, split: number, defended: boolean) => {
    const out = join(folder, `${name}-${split}`)
    const whole = defended
      ? { drafters: ['adapter'] as const, codeStates: (built: string) => codeStates(built, 1) }
      : { drafters: [] }
    await buildBundle({ checkpoint, out, split, format: 'fp32', name, ...whole })
    const parts = defended ? (['input', 'middle', 'output', 'adapter'] as const) : 'chain'
    const model = await openBundle(out, { library: context.io.env.ORT_LIB, parts, threads: 2 })
    try {
      const texts = await textsFor(model, out, checkpoint === demoCheckpoint ? 'read' : 'random', plan)
      const sent = defended ? await disguises(checkpoint, split, model, texts, plan) : []
      for (const each of [...encodings.slice(0, checkpoint === demoCheckpoint ? 2 : 1), ...sent]) {
        context.progress(`${name}, split after layer ${split}: ${each.sending}`)
        runs.push(...(await attacksOn({ name, split, model }, texts, each, plan, context)))
      }
      if (defended && plan.frames) runs.push(...(await framesRuns(out, model, texts, plan.frames, context)))
    } finally {
      await model.release()
    }
  }
  try {
    for (const split of plan.splits) await measure(demoCheckpoint, 'demo', split, split === 1)
    for (const [name, config] of plan.others ? Object.entries(randomModels) : []) {
      const checkpoint = join(folder, name)
      await writeRandomCheckpoint(checkpoint, { config, dtype: 'F16', seed: 1 })
      await measure(checkpoint, name, 2, false)
    }
    return runs
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The architectures of public models, with random weights and fewer and smaller layers. */
const small = { hidden_size: 256, intermediate_size: 512, num_hidden_layers: 6, num_attention_heads: 8, vocab_size: 4_096 }
const randomModels = {
  'llama-random': { ...tinyLlamaConfig, ...small },
  'qwen2-random': { ...qwen05bConfig, ...small, num_key_value_heads: 2, max_position_embeddings: 512 },
} as const

/** A way of sending. */
interface Sent {
  readonly sending: string
  readonly send: Sending
  /** What the bridge makes of it; absent: it takes it as it is. */
  readonly read?: Sending
  /** As AuditOptions.known. */
  readonly known?: Sending
}

const encodings: readonly Sent[] = [
  { sending: 'fp16', send: onWire('fp16') },
  { sending: 'int8', send: onWire('int8') },
]

/** What is to hide the states, and what attackers know of it. */
async function disguises(
  checkpoint: string,
  split: number,
  model: LoadedModel,
  { training }: Texts,
  { noises, cuts, changes, pairs }: PrivacyPlan,
): Promise<Sent[]> {
  const { hidden } = model.manifest.dims
  const sent: Sent[] = noises.map((share) => ({ sending: `noise ${share}`, send: noisy(share, seededRandom(1)) }))
  if (cuts)
    for (const file of (await readdir(cutsFolder)).sort())
      sent.push({ sending: basename(file, '.safetensors'), ...(await readLearnedCut(join(cutsFolder, file), seededRandom(1))) })
  if (changes.length === 0) return sent
  const rotation = randomRotation(hidden, seededRandom(2))
  const rotated = { send: turned(rotation), read: turned(transposed(rotation)) }
  sent.push({ sending: 'rotation', ...rotated })
  const weights = await firstMiddleWeights(checkpoint, split)
  for (const change of changes) {
    const estimate = estimatedRotation(weights, rotation, { change, random: seededRandom(3) })
    sent.push({ sending: `rotation undone, weights changed by ${change}`, ...rotated, known: turned(estimate) })
  }
  const plain = fromStates(await statesOf(model, 'input', { ids: training.flat().slice(0, model.manifest.dims.contextLimit) }))
  for (const count of pairs) {
    const rows = plain.subarray(hidden, (1 + count) * hidden)
    const estimate = rotationOfPairs(rows, turnedRows(rows, rotation), hidden)
    sent.push({ sending: `rotation undone, by ${count} rows`, ...rotated, known: turned(estimate) })
  }
  return sent
}

/** The attacker compares these with the bridge's. @returns [rows, hidden] */
async function firstMiddleWeights(checkpoint: string, layer: number): Promise<Float32Array> {
  await using opened = await openCheckpoint(checkpoint)
  const name = `model.layers.${layer}.mlp.gate_proj.weight`
  const { shape } = opened.tensors.find(name)!
  const values = new Float32Array(shape.reduce((product, size) => product * size, 1))
  await opened.tensors.read(name, 0, values)
  return values
}

async function attacksOn(
  { name, split, model }: { readonly name: string; readonly split: number; readonly model: LoadedModel },
  texts: Texts,
  { sending, send, read, known }: Sent,
  { answerTokens }: PrivacyPlan,
  { io }: BenchContext,
): Promise<PrivacyRun[]> {
  const through: Sending = read ? (states, base) => read(send(states, base), base) : send
  const cost = await costOf(model, texts, through)
  const measured = name === 'demo' && split === 1
  const acceptLength = measured ? await acceptLengthOf(model, texts.prompts, through, 2 * answerTokens) : null
  const audited = {
    ...texts,
    model,
    send,
    known,
    answerTokens,
    random: seededRandom(1),
    now: systemClock.nowMs,
    signal: io.signal,
  }
  // The head of states that the bridge computes otherwise is another one, which this attacker does not have.
  const found = (await auditPrivacy(audited)).filter(({ attack }) => !read || attack !== 'head')
  const { layers } = model.manifest.dims
  return found.map(({ attack, text, texts, tokens, recovered: { top1, top10, rougeL, entities }, seconds }) => ({
    ...{ kind: 'attack' as const, model: name, split, layers, sending, attack, text, texts, tokens, acceptLength },
    ...{ top1: top1!.mean, top1Low: top1!.low, top1High: top1!.high },
    ...{ top10: top10!.mean, rougeL: rougeL!.mean, entities: entities?.mean ?? null, seconds, ...cost },
  }))
}

/** What the LLM loses. @param send as its middle reads it */
async function costOf(model: LoadedModel, { dialogues }: Texts, send: Sending) {
  const { vocab, contextLimit } = model.manifest.dims
  let [logRatio, same, tokens] = [0, 0, 0]
  for (const { ids, from } of dialogues) {
    const read = ids.slice(0, contextLimit)
    const shallow = await statesOf(model, 'input', { ids: read.slice(0, -1) })
    const [plain, sent] = [await logitsOf(model, shallow), await logitsOf(model, send(shallow, 0))]
    for (let at = from; at < read.length; at++) {
      const [before, after] = [plain, sent].map((logits) =>
        logprobsOf(logits.subarray((at - 1) * vocab, at * vocab), read[at]!, 1),
      )
      logRatio += before!.logprob - after!.logprob
      same += Number(before!.top[0]!.token === after!.top[0]!.token)
      tokens += 1
    }
  }
  return tokens === 0
    ? { perplexityRatio: 1, sameTokens: 1 }
    : { perplexityRatio: Math.exp(logRatio / tokens), sameTokens: same / tokens }
}

const logitsOf = async (model: LoadedModel, states: Parameters<Sending>[0]): Promise<Float32Array> =>
  Float32Array.from(await model.head().logits(await statesOf(model, 'middle', { states })))
