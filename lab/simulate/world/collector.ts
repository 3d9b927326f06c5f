import type { AnswerRecord, Request } from './answer-record.ts'

/** Where answers are counted. */
export interface Collector {
  /** The answer's first token has come. */
  first(request: Request, ttftMs: number): void
  /** `tokens` tokens came together, `ms` after the one before them. */
  gap(request: Request, ms: number, tokens: number): void
  ended(record: AnswerRecord): void
}
