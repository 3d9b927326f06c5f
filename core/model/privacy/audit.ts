import type { Random } from '../../kit/base/random.ts'
import { type BootstrapInterval, bootstrapMean } from '../../policy/estimate/bootstrap.ts'
import { fromStates, type States, toStates } from '../../wire/protocol/states.ts'
import type { LoadedModel } from '../engine/open-model.ts'
import { likeliestTokens, type Sampling } from '../engine/sampler.ts'
import { searchTokens } from './known-weights-search.ts'
import { type Observation, observeAnswer, type Sending, statesOf } from './observation.ts'
import { recoveryOf, type TextRecovery } from './recovery.ts'
import { siblingStates } from './sibling-states.ts'
import { StateCodebook } from './state-codebook.ts'
import { guessCount, type TokenGuess } from './token-guess.ts'
import { TrainedInverter } from './trained-inverter.ts'

/** What an attacker must have, beside what the bridge gets. */
export const attacks = {
  nearest: 'the weights of the input part',
  search: 'the weights of the input part',
  trained: 'tokens with their states, as from a device of their own; no weights',
  head: 'the weights of the output part',
  inverter: 'as trained; a transformer, from texts of one kind',
} as const
export type Attack = keyof typeof attacks

export interface AuditOptions {
  /** A split one, with all its parts. */
  readonly model: LoadedModel
  readonly send: Sending
  /** What the attacker who has the weights knows of it: all but what is random. Absent: that the states are sent as they are. */
  readonly known?: Sending | undefined
  /** A split model whose middle and output part guess the token of each row (scripts/train/train_inverter.py). Absent: without it. */
  readonly inverter?: LoadedModel | undefined
  /** Prompts as the model reads them, the chat template's tokens included. */
  readonly prompts: readonly (readonly number[])[]
  /** Texts that the trained attack learns from. Empty: it is left out. */
  readonly training: readonly (readonly number[])[]
  /** Of each answer; they are sampled at temperature 1, so that the head's likeliest token is not always theirs. */
  readonly answerTokens: number
  /** What a bridge gets of the answer to a prompt. Absent: that of the reference's answer, sent so. */
  readonly observe?: ((promptIds: readonly number[], at: number) => Promise<Observation>) | undefined
  readonly decode: (ids: readonly number[]) => string
  readonly random: Random
  readonly now: () => number
  /** @param share 0..1 */
  readonly onProgress?: (share: number) => void
  readonly signal?: AbortSignal | undefined
}

export interface AuditedAttack {
  readonly attack: Attack
  readonly text: 'prompt' | 'answer'
  readonly texts: number
  readonly tokens: number
  /** Means over the texts. */
  readonly recovered: Readonly<Record<keyof TextRecovery, BootstrapInterval | null>>
  readonly seconds: number
}

/**
 * How much of prompts and answers an attacker at the bridge recovers. The first token of a prompt is known: the chat template's. What all
 * prompts begin and end with is not counted.
 * @throws BrimError as the model's parts
 */
export async function auditPrivacy(options: AuditOptions): Promise<AuditedAttack[]> {
  const { model, send, prompts, answerTokens, decode, random, onProgress, signal } = options
  const observe =
    options.observe ?? ((ids, at) => observeAnswer(model, ids, { sampling: auditSampling(at), maxTokens: answerTokens }, send))
  const counted = countedRange(prompts)
  const attackers = await openAttackers(options)
  const recoveries = new Map<
    string,
    { readonly attack: Attack; readonly text: 'prompt' | 'answer'; all: TextRecovery[]; tokens: number; ms: number }
  >()
  for (const [at, ids] of prompts.entries()) {
    signal?.throwIfAborted()
    onProgress?.(at / prompts.length)
    const observed = await observe(ids, at)
    const prompt = { text: 'prompt', from: counted.from, to: ids.length - counted.fromEnd } as const
    // Its last token is never sent.
    const answer = { text: 'answer', from: observed.promptTokens, to: observed.ids.length - 1 } as const
    for (const [attack, guess] of attackers) {
      const beganMs = options.now()
      const guesses = await guess(observed)
      const ms = options.now() - beganMs
      for (const { text, from, to } of attack === 'head' ? [answer] : [prompt, answer]) {
        if (to <= from) continue
        const key = `${attack} ${text}`
        const entry = recoveries.get(key) ?? { attack, text, all: [], tokens: 0, ms: 0 }
        recoveries.set(key, entry)
        entry.all.push(recoveryOf(observed.ids.slice(from, to), guesses.slice(from, to), decode))
        entry.tokens += to - from
        entry.ms += (ms * (to - from)) / observed.ids.length
      }
    }
  }
  onProgress?.(1)
  return [...recoveries.values()].map(({ attack, text, all, tokens, ms }) => ({
    attack,
    text,
    texts: all.length,
    tokens,
    recovered: intervalsOf(all, random),
    seconds: ms / 1_000,
  }))
}

/** @param at the prompt's number */
export const auditSampling = (at: number): Sampling => ({ temperature: 1, topK: 0, topP: 1, seed: at + 1 })

type Guesser = (observed: Observation) => Promise<TokenGuess[]>

/** All but the first token of each text. */
async function openAttackers({ model, send, known, inverter, prompts, training }: AuditOptions): Promise<Map<Attack, Guesser>> {
  const { hidden, vocab, contextLimit } = model.manifest.dims
  const part = model.part('input')
  const first = prompts[0]![0]!
  const codebook = new StateCodebook(await statesAfter(model, first, known), hidden)
  const byRow = (guess: (row: Float32Array) => TokenGuess): Guesser => {
    return async ({ rows }) =>
      Array.from({ length: rows.length / hidden }, (_, at) => guess(rows.subarray(at * hidden, (at + 1) * hidden)))
  }
  const attackers = new Map<Attack, Guesser>([
    ['nearest', byRow((row) => codebook.nearest(row))],
    ['search', ({ rows }) => searchTokens(rows, first, { part, codebook, vocab, contextLimit, known })],
    ['head', async ({ nextTokens }) => [[first], ...nextTokens]],
  ])
  if (training.length > 0) {
    const trained = new TrainedInverter(await samplesOf(model, training, send))
    attackers.set(
      'trained',
      byRow((row) => trained.guess(row)),
    )
  }
  if (inverter) attackers.set('inverter', ({ rows }) => invert(inverter, toStates(rows, hidden)))
  return attackers
}

/** What the inverter takes for the token of each row. */
async function invert(inverter: LoadedModel, rows: States): Promise<TokenGuess[]> {
  const { vocab } = inverter.manifest.dims
  const logits = await inverter.head().logits(await statesOf(inverter, 'middle', { states: rows }))
  return Array.from({ length: rows.rows }, (_, at) => likeliestTokens(logits.subarray(at * vocab, (at + 1) * vocab), guessCount))
}

/** Of every token after this first one, as the attacker expects them: [vocab, hidden]. */
async function statesAfter(model: LoadedModel, first: number, known: Sending | undefined): Promise<Float32Array> {
  const { hidden, vocab, contextLimit } = model.manifest.dims
  const part = model.part('input')
  const values = new Float32Array(vocab * hidden)
  const sequence = part.createSequence()
  try {
    await part.step([{ sequence, ids: [first], select: 'none' }])
    const all = Array.from({ length: vocab }, (_, id) => id)
    let at = 0
    for await (const some of siblingStates(part, sequence, all, { contextLimit, known })) {
      values.set(some.values, at)
      at += some.values.length
    }
    return values
  } finally {
    sequence.release()
  }
}

/** The first token of a text has a state of another kind than all others, and is left out. */
async function samplesOf(model: LoadedModel, texts: readonly (readonly number[])[], send: Sending) {
  const { hidden: width } = model.manifest.dims
  const ids = texts.flatMap((text) => text.slice(1))
  const values = new Float32Array(ids.length * width)
  let at = 0
  for (const text of texts) {
    const states = fromStates(send(await statesOf(model, 'input', { ids: text }), 0)).subarray(width)
    values.set(states, at)
    at += states.length
  }
  return { values, width, ids }
}

/** What all prompts begin and end with says nothing of them. */
function countedRange(prompts: readonly (readonly number[])[]): { readonly from: number; readonly fromEnd: number } {
  const [one, ...others] = prompts
  const common = (idAt: (prompt: readonly number[], at: number) => number | undefined) => {
    let at = 0
    while (others.length > 0 && at < one!.length && others.every((other) => idAt(other, at) === idAt(one!, at))) at += 1
    return at
  }
  return {
    from: Math.max(
      1,
      common((prompt, at) => prompt[at]),
    ),
    fromEnd: common((prompt, at) => prompt.at(-1 - at)),
  }
}

function intervalsOf(all: readonly TextRecovery[], random: Random): AuditedAttack['recovered'] {
  const of = (value: (recovery: TextRecovery) => number | null) =>
    bootstrapMean(
      all.flatMap((each) => value(each) ?? []),
      random,
    ) ?? null
  return {
    top1: of(({ top1 }) => top1),
    top10: of(({ top10 }) => top10),
    rougeL: of(({ rougeL }) => rougeL),
    entities: of(({ entities }) => entities),
  }
}
