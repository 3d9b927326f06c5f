/** A request as the workload makes it. */
export interface RequestedAnswer {
  readonly id: number
  readonly atMs: number
  /** A name of `modes`. */
  readonly mode: string
  /** Name of its part of the workload, by which results are counted. */
  readonly part: string
  /** Index of the device that asks; undefined: a client of the cloud. */
  readonly device: number | undefined
  readonly promptTokens: number
  /** Tokens that the answer has at its end, >= 1. */
  readonly outputTokens: number
  /** Of the prompt's beginning, that earlier requests had in common; 0: none. */
  readonly sharedTokens: number
  /** Tokens per second that the reader takes. */
  readonly tokensPerS: number
}

/** What answering took: modes add to it. */
export const noWork = () => ({
  serverPromptTokens: 0,
  serverOutputTokens: 0,
  devicePromptTokens: 0,
  deviceOutputTokens: 0,
  joules: 0,
  dollars: 0,
  /** HAT: verifications, and the tokens that they gained. */
  rounds: 0,
  gainedTokens: 0,
  draftedTokens: 0,
  /** HAT: where the seconds of verifications go: until the rows are sent, up, at the cloud, down, and until tokens are chosen. */
  draftingS: 0,
  uplinkS: 0,
  cloudS: 0,
  downlinkS: 0,
  choosingS: 0,
  /** PICE: tokens of the sketch; 0: answered in full. */
  sketchTokens: 0,
  /** DiSCo: changes of the side that writes, tokens that the reader had in hand then, and those that came late because of it. */
  migrations: 0,
  bufferedTokens: 0,
  delayedTokens: 0,
})
export type AnswerWork = ReturnType<typeof noWork>

/** What is known of an answer at its end. Times in ms. */
export interface AnswerRecord extends RequestedAnswer, AnswerWork {
  /** Undefined: it was answered. */
  readonly refusal: string | undefined
  readonly ttftMs: number
  readonly endedMs: number
  readonly tokens: number
  /** Mean time between tokens; NaN with fewer than two. */
  readonly tbtMs: number
  readonly stalledMs: number
  /** Tokens by the weights of effective throughput (TokenFlow Eq. 1). */
  readonly weightedTokens: number
  /** 0..1, as Andes measures it. */
  readonly qualityOfExperience: number
}
