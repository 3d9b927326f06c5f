import type { Distribution } from '../estimate/distribution.ts'
import type { ForgettingHistogram } from '../estimate/forgetting-histogram.ts'
import type { LinearFit } from '../estimate/linear-fit.ts'
import { createGaps, createLocalTtft, createPace, createTtft } from './estimates.ts'
import { lateAfterMs } from './silent-source.ts'
import { SilentStarts } from './silent-starts.ts'

/** What is known of the starts of one side, and what each start teaches. Times in ms; tokens are those of the prompt and of the answer so far. */
export interface StartEstimate {
  startMs(tokens: number): number
  readonly msPerToken: number
  /** Whether any of its starts has been measured, here or by its bridge. */
  readonly isKnown: boolean
  firstToken(ms: number, tokens: number): void
  /** Was stopped before its first token. */
  canceled(ms: number, tokens: number): void
  /** Time from the piece before to one of so many tokens. */
  gap(ms: number, tokens: number): void
}

export interface RemoteEstimate extends StartEstimate {
  /** F. */
  readonly ttftMs: Distribution
  /** Expected time to its first token, where `startMs` is one that most starts keep to. */
  firstMs(tokens: number): number
  /** Whether it has stopped answering. */
  readonly isSilent: boolean
  /** Gap between its pieces after which it counts as silent. */
  readonly lateMs: number
}

/** What is learnt of one remote endpoint. */
export interface RemoteLearning {
  /** F. */
  readonly starts: ForgettingHistogram
  /** The same by tokens of the prompt. */
  readonly startsByTokens: LinearFit
  readonly silence: SilentStarts
  /** Gaps between pieces. */
  readonly gaps: ForgettingHistogram
  /** The same by tokens of the piece. */
  readonly pace: LinearFit
}

const createRemoteLearning = (): RemoteLearning => ({
  starts: createTtft(),
  startsByTokens: createLocalTtft(),
  silence: new SilentStarts(),
  gaps: createGaps(),
  pace: createPace(),
})

/** Before a server's first answer: long enough for most servers, so that the device does not wait long for one that is dead. */
const unknownTtftMs = 2_000
/** Answers after which the times that a bridge announces no longer count: they lack the way to this device. */
const ownAnswers = 20
/** Part of the migrations to a server that its estimate is to be enough for. */
export const defaultPatience = 0.9
const minFirstMs = 1
/** Before the first pieces: 20 tokens a second. */
const unknownPaceMs = 50

/**
 * For the plan of one answer.
 * @param learnt to which every start and every piece adds; nothing yet where it is absent
 * @param announced F as the bridge itself measures it
 * @param patience part of the starts that are to be earlier than `startMs`
 * @param announcedMsPerToken between tokens, as the bridge itself measures it
 */
export function remoteEstimate(
  learnt: Partial<RemoteLearning>,
  announced?: ForgettingHistogram,
  patience = defaultPatience,
  announcedMsPerToken?: number,
): RemoteEstimate {
  const { starts: own, startsByTokens, silence, gaps, pace } = { ...createRemoteLearning(), ...learnt }
  const known = announced && own.weight < ownAnswers ? sumOf(own, announced) : own
  const isKnown = known.weight > 0
  const starts = isKnown ? known : unknownStarts()
  return {
    ttftMs: isKnown ? starts.predictive : starts,
    // What a bridge announces in full is enough to compare it by.
    isKnown: own.weight > 0 || (isKnown && announcedMsPerToken !== undefined),
    // What has been learned since the plan counts, too: the answer may return to a server that it has met.
    startMs: () => (own.weight > 0 ? own : starts).quantile(patience),
    firstMs(tokens) {
      // Starts that were given up are in F alone: those that were waited for tell by how much longer prompts take more.
      const medianMs = starts.quantile(0.5)
      const { slope = 0, meanX } = startsByTokens
      return Math.max(minFirstMs, medianMs + Math.max(0, slope) * (tokens - meanX))
    },
    get msPerToken() {
      return pace.ratio ?? announcedMsPerToken ?? unknownPaceMs
    },
    isSilent: silence.isFailed,
    lateMs: lateAfterMs(gaps),
    gap(ms, tokens) {
      gaps.record(ms)
      pace.record(tokens, ms)
    },
    firstToken(ms, tokens) {
      silence.firstToken()
      own.record(ms)
      startsByTokens.record(tokens, ms)
    },
    canceled(ms) {
      const { isFailed } = silence
      silence.givenUp(ms, starts)
      if (!isFailed) own.recordAtLeast(ms, starts)
    },
  }
}

function sumOf(a: ForgettingHistogram, b: ForgettingHistogram): ForgettingHistogram {
  const sum = createTtft()
  sum.merge(a)
  sum.merge(b)
  return sum
}

function unknownStarts(): ForgettingHistogram {
  const starts = createTtft()
  starts.record(unknownTtftMs)
  return starts
}

/** Before the first answer of a small model of unknown speed and size, in ms per token of the prompt. */
const unknownMsPerToken = 20
/** Of a small model of unknown speed: the phones of DiSCo's Table 6 run 8 to 26 · 10⁹ in its counting. */
const unknownFlopsPerS = 20e9

/**
 * @param fit k·l + c, which every start adds to
 * @param prefillTokensPerS as measured otherwise
 * @param flopsPerToken of the prompt, by the model's size
 * @param pace which every piece adds to
 */
export function localEstimate(
  fit: LinearFit,
  prefillTokensPerS?: number,
  flopsPerToken?: number,
  pace = createPace(),
): StartEstimate {
  const msPerToken = flopsPerToken === undefined ? unknownMsPerToken : (1_000 * flopsPerToken) / unknownFlopsPerS
  return {
    startMs(tokens) {
      const { line } = fit
      if (line) return line.slope * tokens + line.intercept
      return tokens * (prefillTokensPerS ? 1_000 / prefillTokensPerS : msPerToken)
    },
    get msPerToken() {
      return pace.ratio ?? unknownPaceMs
    },
    get isKnown() {
      return fit.line !== undefined
    },
    firstToken: (ms, tokens) => fit.record(tokens, ms),
    canceled() {},
    gap: (ms, tokens) => pace.record(tokens, ms),
  }
}
