import type { DraftReport } from '../draft/drafter.ts'
import type { Wire } from '../protocol/frame.ts'

/** What an endpoint spent on its part of an answer, and what it measured: the counts of split decoding with drafts. */
export interface EndpointFigures {
  /** Verifications; the token that follows from prefill alone belongs to none. */
  readonly rounds: number
  /** Tokens per round, bonus token included; null where the answer had no round. */
  readonly acceptLength: number | null
  readonly drafted: number
  /** Drafted tokens that the LLM accepted. */
  readonly accepted: number
  /** How hidden states travel up; as int8 the answer may differ from the reference. */
  readonly wire: Wire
  /** Null where the drafter was not chosen by measurement. */
  readonly drafting: DraftReport | null
  /** Null where nothing may be drafted during verifications. */
  readonly ahead: DraftAheadFigures | null
  /** Positions of the prompt that the bridge had cached; only what follows them was sent. */
  readonly reusedTokens: number
  /** Bytes on the socket for this session, headers included. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** Rows, in either direction, that fp16 could not hold. */
  readonly wideRows: number
  /** Times that the answer moved to another session because link or bridge failed. */
  readonly failovers: number
  /** Inputs of HAT's decisions, as measured up to the end of the answer; null where nothing was large enough to measure. */
  readonly rates: {
    readonly upBytesPerS: number | null
    readonly downBytesPerS: number | null
    readonly prefillTokensPerS: number | null
    /** γ. */
    readonly draftStepMs: number | null
  }
}

/** What was drafted during verifications (HAT 'Parallel drafting'). */
export interface DraftAheadFigures {
  /** Tokens drafted, used or not. */
  readonly drafted: number
  /** Rounds that began with a pending token and draft prepared during the round before. */
  readonly rounds: number
  /** Tokens of those drafts. */
  readonly tokens: number
}

/** Of an answer to which no session contributed a token. */
export const noFigures: EndpointFigures = {
  rounds: 0,
  acceptLength: null,
  drafted: 0,
  accepted: 0,
  wire: 'fp16',
  drafting: null,
  ahead: null,
  reusedTokens: 0,
  bytesUp: 0,
  bytesDown: 0,
  wideRows: 0,
  failovers: 0,
  rates: { upBytesPerS: null, downBytesPerS: null, prefillTokensPerS: null, draftStepMs: null },
}
