import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { openCheckpoint } from '../../../core/model/bundle/checkpoint.ts'
import { logprobsOf } from '../../../core/model/engine/logprobs.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { type Attack, auditPrivacy } from '../../../core/model/privacy/audit.ts'
import { onWire, type Sending, statesOf } from '../../../core/model/privacy/observation.ts'
import { readPrompts } from '../../../core/model/text/prompt-file.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { qwen05bConfig, tinyLlamaConfig, writeRandomCheckpoint } from '../../random-checkpoint.ts'
import { heldOutPrompts } from '../prompts.ts'
import { shuffled } from '../shuffled.ts'
import { estimatedRotation, noisy, randomRotation, transposed, turned } from './disguises.ts'

/** One attack on one way of sending. */
export interface PrivacyRun {
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
}

export interface PrivacyPlan {
  /** Attacked prompts, and texts that the attacker without weights learns from. */
  readonly prompts: number
  readonly training: number
  readonly promptTokens: number
  readonly answerTokens: number
  readonly splits: readonly number[]
  /** Tokens of the models with random weights. */
  readonly randomVocab: number
  readonly noises: readonly number[]
  /** Share of their size by which the bridge's weights differ from the public ones. */
  readonly changes: readonly number[]
}

export const fullPlan: PrivacyPlan = {
  prompts: 40,
  training: 120,
  promptTokens: 96,
  answerTokens: 32,
  splits: [1, 2, 4, 8],
  randomVocab: 4_096,
  noises: [1, 3, 10],
  changes: [0, 0.1, 1],
}
export const quickPlan: PrivacyPlan = {
  prompts: 5,
  training: 60,
  promptTokens: 48,
  answerTokens: 12,
  splits: [1, 2],
  randomVocab: 4_096,
  noises: [3],
  changes: [0, 0.1],
}

/** Of the demonstration LLM. */
const demoCheckpoint = fileURLToPath(new URL('models/demo/llm', projectRoot))

/** What is attacked, and what the attacker and the checks of quality read. */
interface Texts {
  readonly prompts: readonly (readonly number[])[]
  readonly training: readonly (readonly number[])[]
  /** Prompts with the answers that people gave. */
  readonly dialogues: readonly { readonly ids: readonly number[]; readonly from: number }[]
  readonly decode: (ids: readonly number[]) => string
}

export async function measurePrivacy(plan: PrivacyPlan, context: BenchContext): Promise<PrivacyRun[]> {
  const folder = await mkdtemp(join(tmpdir(), 'brim-privacy-'))
  const runs: PrivacyRun[] = []
  const measure = async (checkpoint: string, name: string, split: number, defended: boolean) => {
    const out = join(folder, `${name}-${split}`)
    const { manifest } = await buildBundle({ checkpoint, out, split, format: 'fp32', name, drafters: [] })
    const model = await openBundle(out, { library: context.io.env.ORT_LIB, parts: 'chain', threads: 2 })
    try {
      const texts = await textsFor(model, out, checkpoint === demoCheckpoint ? 'read' : 'random', plan)
      const weights = await firstMiddleWeights(checkpoint, split)
      for (const sent of sendings(manifest.dims.hidden, weights, defended ? plan : { noises: [], changes: [] })) {
        context.progress(`${name}, split after layer ${split}: ${sent.sending}`)
        runs.push(...(await attacksOn({ name, split, model }, texts, sent, plan, context)))
      }
    } finally {
      await model.release()
    }
  }
  try {
    for (const split of plan.splits) await measure(demoCheckpoint, 'demo', split, split === 1)
    for (const [name, shape] of Object.entries(randomModels)) {
      const checkpoint = join(folder, name)
      const config = { ...shape, vocab_size: plan.randomVocab }
      await writeRandomCheckpoint(checkpoint, { config, dtype: 'F16', seed: 1 })
      await measure(checkpoint, name, 2, false)
    }
    return runs
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The architectures of public models, with random weights and fewer and smaller layers. */
const small = { hidden_size: 256, intermediate_size: 512, num_hidden_layers: 6, num_attention_heads: 8 }
const randomModels = {
  'llama-random': { ...tinyLlamaConfig, ...small },
  'qwen2-random': { ...qwen05bConfig, ...small, num_key_value_heads: 2, max_position_embeddings: 512 },
} as const

/** A way of sending. */
interface Sent {
  readonly sending: string
  readonly send: Sending
  /** What the bridge's own weights make of it; absent: they take it as it is. */
  readonly read?: Sending
}

/** Encodings of the wire, then what is to hide the states. */
function* sendings(
  hidden: number,
  weights: Float32Array,
  { noises, changes }: Pick<PrivacyPlan, 'noises' | 'changes'>,
): Generator<Sent, void> {
  yield { sending: 'fp16', send: onWire('fp16') }
  yield { sending: 'int8', send: onWire('int8') }
  for (const share of noises) yield { sending: `noise ${share}`, send: noisy(share, seededRandom(1)) }
  if (changes.length === 0) return
  const rotation = randomRotation(hidden, seededRandom(2))
  const [rotate, read] = [turned(rotation), turned(transposed(rotation))]
  yield { sending: 'rotation', send: rotate, read }
  for (const change of changes) {
    const undo = turned(transposed(estimatedRotation(weights, rotation, { change, random: seededRandom(3) })))
    yield {
      sending: `rotation undone, weights changed by ${change}`,
      send: (states) => undo(rotate(states)),
      read: (states) => states,
    }
  }
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

async function textsFor(model: LoadedModel, bundle: string, kind: 'read' | 'random', plan: PrivacyPlan): Promise<Texts> {
  const random = seededRandom(5)
  if (kind === 'random') {
    const { vocab } = model.manifest.dims
    const text = () => [1, ...Array.from({ length: plan.promptTokens - 1 }, () => Math.floor(random.next() * vocab))]
    const of = (count: number) => Array.from({ length: count }, text)
    return { prompts: of(plan.prompts), training: of(plan.training), dialogues: [], decode: (ids) => ids.join(' ') }
  }
  const text = await loadTextModel(bundle, model.manifest)
  const all = await readPrompts(heldOutPrompts.file, { ...text, check() {} })
  const tasks = [...new Set(all.map(({ task }) => task))]
  // The attacker learns from other tasks than those that are attacked.
  const learnt = new Set(tasks.filter((_, at) => at % 2 === 0))
  const cut = (ids: readonly number[]) => ids.slice(0, plan.promptTokens)
  const attacked = shuffled(
    all.filter(({ task }) => !learnt.has(task)),
    random,
  ).slice(0, plan.prompts)
  return {
    prompts: attacked.map(({ ids }) => cut(ids)),
    training: shuffled(
      all.filter(({ task }) => learnt.has(task)),
      random,
    )
      .slice(0, plan.training)
      .map(({ ids, answerIds = [] }) => [...ids, ...answerIds].slice(0, 4 * plan.promptTokens)),
    dialogues: attacked.flatMap(({ ids, answerIds = [] }) =>
      answerIds.length > 0 ? [{ ids: [...ids, ...answerIds], from: ids.length }] : [],
    ),
    decode: (ids) => text.tokenizer.decode([...ids]),
  }
}

async function attacksOn(
  { name, split, model }: { readonly name: string; readonly split: number; readonly model: LoadedModel },
  texts: Texts,
  { sending, send, read }: Sent,
  { answerTokens }: PrivacyPlan,
  { io }: BenchContext,
): Promise<PrivacyRun[]> {
  const cost = await costOf(model, texts, read ? (states) => read(send(states)) : send)
  const audited = { ...texts, model, send, answerTokens, random: seededRandom(1), now: systemClock.nowMs, signal: io.signal }
  // The head of rotated states is another one, which this attacker does not have.
  const found = (await auditPrivacy(audited)).filter(({ attack }) => !read || attack !== 'head')
  const { layers } = model.manifest.dims
  return found.map(({ attack, text, texts, tokens, recovered: { top1, top10, rougeL, entities }, seconds }) => ({
    ...{ model: name, split, layers, sending, attack, text, texts, tokens },
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
    const [plain, sent] = [await logitsOf(model, shallow), await logitsOf(model, send(shallow))]
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
