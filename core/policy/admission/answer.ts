/** How long a client whose answer was refused waits before it asks again, at least and at most. */
const minRetryMs = 1_000
const maxRetryMs = 60_000

export interface AnswerLoad {
  readonly waiting: number
  readonly maxWaiting: number
  /** Mean time between two answers that leave the queue; undefined before the first. */
  readonly intervalMs: number | undefined
}

/** @returns when to ask again, once those that wait now have begun; undefined: there is a place */
export function answerRetryMs({ waiting, maxWaiting, intervalMs = 0 }: AnswerLoad): number | undefined {
  if (waiting < maxWaiting) return undefined
  return Math.min(maxRetryMs, Math.max(minRetryMs, waiting * intervalMs))
}
