import type { Clock } from '../../core/kit/base/clock.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import type { ExpandedSentence } from '../../core/wire/protocol/expansion.ts'
import type { AttemptOutbox, AttemptProgress, OpenAttempt } from './attempt-outbox.ts'

/** Interval of the events that show that a silent job still runs. */
const heartbeatMs = 15_000
/** Minimum time between two pieces of text: each costs the bridge a commit. */
const textMs = 100
/** Unacknowledged events of an attempt, beyond which events that show only that it goes on are left out. */
const maxUnacknowledged = 4
/** Minimum time between two reports of progress. */
const progressMs = 2_000

/** Reports a running attempt: its text in pieces or sentences, its progress and that it still runs. */
export class AttemptReporter {
  readonly #outbox: AttemptOutbox
  readonly #attempt: OpenAttempt
  readonly #clock: Clock
  readonly #stopHeartbeat: () => Promise<void>
  #text = ''
  #sentChars = 0
  #textSentMs: number
  #progressSentMs = Number.NEGATIVE_INFINITY

  constructor(outbox: AttemptOutbox, attempt: OpenAttempt, clock: Clock) {
    this.#outbox = outbox
    this.#attempt = attempt
    this.#clock = clock
    this.#textSentMs = clock.nowMs()
    outbox.report(attempt, { type: 'running' })
    this.#stopHeartbeat = repeatEvery(clock, heartbeatMs, () => this.#reportAlive({ type: 'running' }))
  }

  readonly emitText = (text: string): void => {
    this.#text += text
    const nowMs = this.#clock.nowMs()
    if (this.#text.length === this.#sentChars || nowMs - this.#textSentMs < textMs) return
    this.#outbox.report(this.#attempt, { type: 'text', text: this.#text.slice(this.#sentChars), from: this.#sentChars })
    this.#sentChars = this.#text.length
    this.#textSentMs = nowMs
  }

  readonly progress = (doneBytes: number, totalBytes: number): void => {
    const nowMs = this.#clock.nowMs()
    if (nowMs - this.#progressSentMs < progressMs) return
    this.#reportAlive({ type: 'progress', doneBytes, totalBytes })
    this.#progressSentMs = nowMs
  }

  readonly sentence = (finished: ExpandedSentence): void => {
    this.#outbox.report(this.#attempt, { type: 'sentence', ...finished })
  }

  /** A download may go on for hours without a bridge: events that only show progress must not pile up. */
  #reportAlive(event: AttemptProgress): void {
    if (this.#attempt.events.length < maxUnacknowledged) this.#outbox.report(this.#attempt, event)
  }

  stop(): Promise<void> {
    return this.#stopHeartbeat()
  }
}
