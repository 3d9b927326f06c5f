import type { AnswerRecord, Request } from './answer-record.ts'

/** Where answers are counted. */
export interface Collector {
  /** `tokens` tokens came together, `ms` after the one before them. */
  gap(request: Request, ms: number, tokens: number): void
  ended(record: AnswerRecord): void
}
