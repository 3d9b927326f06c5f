import type { DraftReport } from '../../core/draft/drafter.ts'
import type { Wire } from '../../core/protocol/frame.ts'

/** What one answer took. */
export interface HatSummary {
  readonly tokens: number
  /** Verifications; the token that follows from prefill alone belongs to none. */
  readonly rounds: number
  /** Tokens per round, bonus included; null where the answer had no round. */
  readonly acceptLength: number | null
  readonly drafted: number
  /** Drafted tokens that were kept. */
  readonly accepted: number
  /** How states travelled up; as int8 the answer may be another than the reference's. */
  readonly wire: Wire
  /** Null where the drafter was given. */
  readonly drafting: DraftReport | null
  /** Null where nothing was to be drafted while a verification was away. */
  readonly ahead: AheadSummary | null
  /** Positions of the prompt that the bridge still held: only what came after them was sent. */
  readonly reusedTokens: number
  /** Bytes on the socket for this session, headers included. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** From the open session to the first token, in ms. */
  readonly prefillMs: number
  /** From the request to the first token, in ms. */
  readonly ttftMs: number
  /** Gaps between delivered tokens, in ms: tokens - 1 of them, 0 between tokens of one round. */
  readonly tbtMs: readonly number[]
  /** Rows, either way, that fp16 could not hold. */
  readonly wideRows: number
  /** Times that the answer went on at another session because link or bridge had died. */
  readonly failovers: number
  /** As measured up to the end of the answer, smoothed; null where nothing has been large enough to measure. */
  readonly rates: SessionRates
}

/** What was drafted while verifications were away. */
export interface AheadSummary {
  /** Tokens drafted, used or not. */
  readonly drafted: number
  /** Rounds whose pending token and draft stood ready when the one before them ended. */
  readonly rounds: number
  /** Tokens of those drafts. */
  readonly tokens: number
}

/** What HAT's decisions are made on, of this device and its link. */
export interface SessionRates {
  readonly upBytesPerS: number | null
  readonly downBytesPerS: number | null
  readonly prefillTokensPerS: number | null
  /** γ. */
  readonly draftStepMs: number | null
}

/** What a session knows of its link when it is summed up. */
export type LinkFigures = Pick<
  HatSummary,
  'wire' | 'drafting' | 'ahead' | 'reusedTokens' | 'bytesUp' | 'bytesDown' | 'wideRows' | 'failovers' | 'rates'
>

/** Counts while the answer comes. */
export class HatCounters {
  tokens = 0
  rounds = 0
  drafted = 0
  accepted = 0
  prefillMs = 0
  ttftMs = 0
  readonly tbtMs: number[] = []
  #tokensOfRounds = 0
  #lastMs = 0

  /** The first token, at the end of prefill. */
  first(acceptedMs: number, openedMs: number, nowMs: number): void {
    this.tokens = 1
    this.ttftMs = nowMs - acceptedMs
    this.prefillMs = nowMs - openedMs
    this.#lastMs = nowMs
  }

  /** @param tokens that the round added to the answer */
  round(tokens: number, drafted: number, accepted: number, nowMs: number): void {
    this.tokens += tokens
    this.rounds += 1
    this.drafted += drafted
    this.accepted += accepted
    this.#tokensOfRounds += tokens
    for (let i = 0; i < tokens; i++) this.tbtMs.push(i === 0 ? nowMs - this.#lastMs : 0)
    this.#lastMs = nowMs
  }

  summary(link: LinkFigures): HatSummary {
    const { tokens, rounds, drafted, accepted, prefillMs, ttftMs, tbtMs } = this
    const acceptLength = rounds === 0 ? null : this.#tokensOfRounds / rounds
    return { tokens, rounds, acceptLength, drafted, accepted, ...link, prefillMs, ttftMs, tbtMs: [...tbtMs] }
  }
}

/** Of an answer for which no session gave a token. */
export const noSession: HatSummary = new HatCounters().summary({
  wire: 'fp16',
  drafting: null,
  ahead: null,
  reusedTokens: 0,
  bytesUp: 0,
  bytesDown: 0,
  wideRows: 0,
  failovers: 0,
  rates: { upBytesPerS: null, downBytesPerS: null, prefillTokensPerS: null, draftStepMs: null },
})
