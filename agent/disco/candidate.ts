import type { Endpoint } from '../../core/answer/endpoint.ts'
import { createTtft } from '../../core/policy/disco/estimates.ts'
import { SilentStarts } from '../../core/policy/disco/silent-starts.ts'
import type { Distribution } from '../../core/policy/estimate/distribution.ts'
import type { ForgettingHistogram } from '../../core/policy/estimate/forgetting-histogram.ts'
import type { LinearFit } from '../../core/policy/estimate/linear-fit.ts'
import type { Spender } from './budget.ts'
import type { SmallModelSlots } from './small-model-slots.ts'

/** What could write answers on one side. */
interface Candidate {
  readonly endpoint: Endpoint
  readonly spender: Spender
  readonly continues: boolean
  readonly pauses: boolean
  /** Estimated time to its first token, in ms. @param tokens of the prompt, and of the answer so far */
  startMs(tokens: number): number
  firstToken(ms: number, tokens: number): void
  /** Was stopped before its first token. */
  canceled(ms: number, tokens: number): void
}

/** The small model. */
export interface DeviceCandidate extends Candidate {
  readonly slots: SmallModelSlots
}

/** HAT, the bridge's own model, or another server. */
export interface ServerCandidate extends Candidate {
  /** F, in ms. */
  readonly ttftMs: Distribution
  /** Whether it has stopped answering. */
  readonly isSilent: boolean
  /** Resolves when it can be reached again, after it has failed; absent: unknown. */
  untilReachable?(signal: AbortSignal): Promise<void>
}

type Made<C extends Candidate> = Pick<C, 'endpoint' | 'spender' | 'continues' | 'pauses'>

/** Before a server's first answer: long enough for most servers, so that the device does not wait long for one that is dead. */
const unknownTtftMs = 2_000
/** Answers after which the times that a bridge announces no longer count: they lack the way to this device. */
const ownAnswers = 20
/** The part of the migrations to a server that its estimate is to be enough for. */
const patience = 0.9

/**
 * @param own samples of F, to which every start adds
 * @param announced F as the bridge itself measures it
 * @param silence of earlier starts, to which every start adds
 */
export function serverCandidate(
  made: Made<ServerCandidate> & Pick<ServerCandidate, 'untilReachable'>,
  own: ForgettingHistogram,
  announced?: ForgettingHistogram,
  silence = new SilentStarts(),
): ServerCandidate {
  const starts = createTtft()
  starts.merge(own)
  if (announced && own.weight < ownAnswers) starts.merge(announced)
  const isKnown = starts.weight > 0
  if (!isKnown) starts.record(unknownTtftMs)
  return {
    ...made,
    ttftMs: isKnown ? starts.predictive : starts,
    // What has been learned since the plan counts, too: the answer may return to a server that it has met.
    startMs: () => (own.weight > 0 ? own : starts).quantile(patience),
    isSilent: silence.isFailed,
    firstToken(ms) {
      silence.firstToken()
      own.record(ms)
    },
    canceled(ms) {
      if (!silence.isFailed) own.recordAtLeast(ms, starts)
      silence.givenUp(ms, starts)
    },
  }
}

/** Before the first answer of a small model of unknown speed, in ms per token of the prompt. */
const unknownMsPerToken = 20

/** @param fit k·l + c, which every start adds to @param prefillTokensPerS as measured otherwise */
export function deviceCandidate(
  made: Omit<Made<DeviceCandidate>, 'spender' | 'continues' | 'pauses'>,
  slots: SmallModelSlots,
  fit: LinearFit,
  prefillTokensPerS: number | undefined,
): DeviceCandidate {
  return {
    ...made,
    spender: 'slm',
    continues: true,
    pauses: true,
    slots,
    startMs(tokens) {
      if (!slots.isFree) return Number.POSITIVE_INFINITY
      const { line } = fit
      if (line) return line.slope * tokens + line.intercept
      return tokens * (prefillTokensPerS ? 1_000 / prefillTokensPerS : unknownMsPerToken)
    },
    firstToken: (ms, tokens) => fit.record(tokens, ms),
    canceled() {},
  }
}
