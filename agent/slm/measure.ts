import type { AnswerRequest, Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Chain, Sequence } from '../../core/model/engine/contract.ts'
import { choose } from '../../core/model/engine/logprobs.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { fillerIds } from './filler.ts'
import type { LocalModel } from './local-model.ts'

/** Lengths in tokens. The context of a model may allow less. */
export interface MeasureSize {
  readonly promptTokens: number
  readonly answerTokens: number
  /** Numbers of sequences that are decoded together, ascending. */
  readonly sequences: readonly number[]
}

/** How fast one answer came. */
export interface WritingSpeed {
  readonly ttftMs: number
  /** Mean gap between the tokens after the first. */
  readonly tpotMs: number
  /** The prompt's tokens over the TTFT. */
  readonly prefillTokensPerS: number
  readonly decodeTokensPerS: number
  /** f at two lengths: times from the request until the answer had so many tokens. */
  readonly lengths: readonly { readonly tokens: number; readonly ms: number }[]
}

export interface MeasuredSpeed extends WritingSpeed {
  /** p: throughput of n sequences decoded together over that of one. */
  readonly parallel: readonly (readonly [sequences: number, speedup: number])[]
}

/** For a job `profile`. PICE's answers have some hundred tokens. */
export const profileSize: MeasureSize = { promptTokens: 64, answerTokens: 128, sequences: [2, 4, 8, 16] }
/** For a model that has not been measured yet: a fraction of the time. */
export const quickSize: MeasureSize = { promptTokens: 32, answerTokens: 16, sequences: [4] }

/** The shorter of the two lengths. */
const shortOf = (tokens: number) => Math.max(1, Math.round(tokens / 4))
/** Tokens of each sequence, when several are decoded together. */
const parallelTokens = 16

/** An answer and its beginning, as they came. */
interface TimedAnswer {
  readonly promptTokens: number
  readonly ttftMs: number
  /** Absent: it was shorter. */
  readonly short?: WritingSpeed['lengths'][number] | undefined
  readonly whole: WritingSpeed['lengths'][number]
}

function speedOf({ promptTokens, ttftMs, short, whole }: TimedAnswer): WritingSpeed {
  const tpotMs = whole.tokens > 1 ? (whole.ms - ttftMs) / (whole.tokens - 1) : ttftMs
  return {
    ttftMs,
    tpotMs,
    prefillTokensPerS: (1_000 * promptTokens) / ttftMs,
    decodeTokensPerS: 1_000 / tpotMs,
    lengths: short ? [short, whole] : [whole],
  }
}

/**
 * How fast an endpoint answers this request. @param promptTokens where the endpoint does not count them
 * @throws BrimError as the endpoint; UPSTREAM_FAILED for an empty answer
 */
export async function measureAnswer(
  endpoint: Endpoint,
  request: AnswerRequest & { readonly maxTokens: number },
  promptTokens: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<WritingSpeed> {
  const startedMs = clock.nowMs()
  const sinceMs = () => clock.nowMs() - startedMs
  const shortTokens = shortOf(request.maxTokens)
  let tokens = 0
  let ttftMs: number | undefined
  let counted: number | undefined
  let short: TimedAnswer['short']
  for await (const delta of endpoint.answer(request, signal)) {
    if ('tokens' in delta || delta.text !== '') ttftMs ??= sinceMs()
    tokens += 'tokens' in delta ? delta.tokens.length : delta.tokenCount
    if ('text' in delta) counted = delta.promptTokens ?? counted
    if (tokens >= shortTokens) short ??= { tokens, ms: sinceMs() }
  }
  if (ttftMs === undefined)
    throw new BrimError('UPSTREAM_FAILED', `${endpoint.model.name} made no text when its speed was measured`)
  return speedOf({ promptTokens: counted ?? promptTokens, ttftMs, short, whole: { tokens, ms: sinceMs() } })
}

/**
 * How fast a model writes that this process computes, as an expansion does: greedily, with the log probability of each token.
 * @throws BrimError OUT_OF_MEMORY, RUNTIME_FAILED; the signal's reason
 */
export async function measureModel(
  { text, chain }: Pick<LocalModel, 'text' | 'chain'>,
  size: MeasureSize,
  clock: Clock,
  signal: AbortSignal,
): Promise<MeasuredSpeed> {
  const { promptTokens, answerTokens } = fitting(size, text.dims.contextLimit)
  const ids = fillerIds(text, promptTokens)
  const sequences: Sequence[] = []
  const read = async () => (await stepOf(chain, sequences.slice(0, 1), [ids], signal))[0]!
  try {
    sequences.push(chain.createSequence())
    // The first steps only warm up.
    await decode(chain, sequences, await read(), 2, signal)
    sequences[0]!.truncate(0)
    const startedMs = clock.nowMs()
    const sinceMs = () => clock.nowMs() - startedMs
    const first = await read()
    const ttftMs = sinceMs()
    const shortTokens = shortOf(answerTokens)
    const last = await decode(chain, sequences, first, shortTokens - 1, signal)
    const short = { tokens: shortTokens, ms: sinceMs() }
    await decode(chain, sequences, last, answerTokens - shortTokens, signal)
    return {
      ...speedOf({ promptTokens, ttftMs, short, whole: { tokens: answerTokens, ms: sinceMs() } }),
      parallel: await measureParallel(chain, sequences, { first, ids, counts: size.sequences }, clock, signal),
    }
  } finally {
    for (const sequence of sequences) sequence.release()
  }
}

/** @param sequences its first holds the prompt; further ones are added */
async function measureParallel(
  chain: Chain,
  sequences: Sequence[],
  { first, ids, counts }: { first: number; ids: readonly number[]; counts: readonly number[] },
  clock: Clock,
  signal: AbortSignal,
): Promise<MeasuredSpeed['parallel']> {
  const tokens = Math.min(parallelTokens, chain.manifest.dims.contextLimit - ids.length)
  const shortest = async (count: number) => {
    while (sequences.length < count) {
      const sequence = chain.createSequence()
      sequences.push(sequence)
      sequence.copyPrefix(sequences[0]!, ids.length)
    }
    const used = sequences.slice(0, count)
    const rewind = () => {
      for (const sequence of used) sequence.truncate(ids.length)
    }
    rewind()
    // The graph of this number of sequences is compiled in its first step.
    await decode(chain, used, first, 1, signal)
    rewind()
    let [ms, cpuUs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
    for (let at = 0; at < tokens; at++) {
      const startedMs = clock.nowMs()
      const before = process.cpuUsage()
      await decode(chain, used, first, 1, signal)
      const { user, system } = process.cpuUsage(before)
      ms = Math.min(ms, clock.nowMs() - startedMs)
      cpuUs = Math.min(cpuUs, Math.max(1, user + system))
    }
    return { ms, cpuUs }
  }
  sequences[0]!.truncate(ids.length)
  const alone = await shortest(1)
  const parallel: [number, number][] = []
  try {
    for (const count of counts) {
      const together = await shortest(count)
      // Other programs delay long steps more often than short ones, which hides the speed-up; the CPU time shows it still.
      parallel.push([count, count * Math.max(alone.ms / together.ms, alone.cpuUs / together.cpuUs)])
    }
  } catch (error) {
    // The memory of this device holds no more sequences.
    if (!(error instanceof BrimError && error.code === 'OUT_OF_MEMORY')) throw error
  }
  return parallel
}

/** Decodes `count` tokens after `token` in each sequence. @returns the last token of the first */
async function decode(chain: Chain, sequences: readonly Sequence[], token: number, count: number, signal: AbortSignal) {
  let tokens = sequences.map(() => token)
  for (let at = 0; at < count; at++) {
    const ids = tokens.map((id) => [id])
    tokens = await stepOf(chain, sequences, ids, signal)
  }
  return tokens[0]!
}

/** @returns the next token of each sequence */
async function stepOf(chain: Chain, sequences: readonly Sequence[], ids: readonly (readonly number[])[], signal: AbortSignal) {
  signal.throwIfAborted()
  const { vocab } = chain.manifest.dims
  const items = sequences.map((sequence, at) => ({ sequence, ids: ids[at]!, select: 'last' as const }))
  const logits = await chain.step(items)
  return sequences.map((sequence, at) => {
    const row = logits.subarray(at * vocab, (at + 1) * vocab)
    return choose(row, { sampling: greedy, logprobs: 0 }, sequence.length, []).token
  })
}

function fitting({ promptTokens, answerTokens }: MeasureSize, contextLimit: number) {
  const prompt = Math.min(promptTokens, Math.floor(contextLimit / 2))
  return { promptTokens: prompt, answerTokens: Math.max(2, Math.min(answerTokens, contextLimit - prompt)) }
}

const question =
  'describe a day at a railway station, from the first train to the last, in as much detail as you can, with its people and sounds.'

/**
 * How fast a model on a server writes, with as many requests at once as sequences elsewhere. Servers count and end answers
 * themselves, so the lengths are near those asked for.
 * @throws BrimError as the endpoint; UPSTREAM_FAILED for an empty answer
 */
export async function measureServer(
  endpoint: Endpoint,
  { answerTokens, sequences }: MeasureSize,
  clock: Clock,
  signal: AbortSignal,
): Promise<MeasuredSpeed> {
  let asked = 0
  const answer = async (maxTokens: number) => {
    // Another beginning each time, because servers cache prefixes.
    const messages = [{ role: 'user', content: `Number ${asked++}: ${question}` }]
    const prompt = new Prompt({ kind: 'chat', messages })
    const request = { prompt, sampling: greedy, stop: [], maxTokens, client: 'brim-profile' }
    return measureAnswer(endpoint, request, question.length / charsPerToken, clock, signal)
  }
  await answer(1)
  const alone = await answer(answerTokens)
  const { tokens, ms } = alone.lengths.at(-1)!
  const parallel: [number, number][] = []
  for (const count of sequences) {
    const fromMs = clock.nowMs()
    const answers = await Promise.all(Array.from({ length: count }, () => answer(answerTokens)))
    const together = answers.reduce((sum, { lengths }) => sum + lengths.at(-1)!.tokens, 0) / (clock.nowMs() - fromMs)
    parallel.push([count, (together * ms) / tokens])
  }
  return { ...alone, parallel }
}

/** Of English text, for a server that does not count the tokens of its prompts. */
const charsPerToken = 4
