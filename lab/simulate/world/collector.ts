import type { AnswerRecord, RequestedAnswer } from './answer-record.ts'

/** Where answers are counted. */
export interface Collector {
  first(request: RequestedAnswer, ttftMs: number): void
  /** `tokens` tokens came together, `ms` after the one before them. */
  gap(request: RequestedAnswer, ms: number, tokens: number): void
  ended(record: AnswerRecord): void
}
