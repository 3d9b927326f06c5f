import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { firstResend, nextResend, type ResendState } from '../../core/policy/jobs/resend.ts'
import type { ExpandedSentence } from '../../core/wire/protocol/expansion.ts'
import type { JobAck, JobEvent } from '../../core/wire/protocol/jobs.ts'
import type { Publisher } from '../link/ports.ts'
import type { FinalEvent, JobLedger, LedgerEntry } from './ledger.ts'
import { interrupted, type Outcome } from './outcome.ts'

/** Events of one attempt that has not ended, until they are acknowledged. */
export interface OpenAttempt {
  readonly entry: LedgerEntry
  /** By the clock of the outbox: when this start of the agent began to wait for its turn. */
  readonly openedMs: number
  events: JobEvent[]
  /** Number of the last event. */
  n: number
  /** The event that ends the attempt, once it has been published though the disk did not store it. */
  unstored?: FinalEvent
}

export type AttemptProgress =
  | { type: 'accepted' | 'running' }
  | { type: 'text'; text: string; from: number }
  | { type: 'progress'; doneBytes: number; totalBytes: number }
  | ({ type: 'sentence' } & ExpandedSentence)

interface Connection {
  readonly publisher: Pick<Publisher, 'publish'>
  resend: ResendState
}

/** Higher than the number of any event that an earlier start of the agent reported. */
const afterAllEvents = 2 ** 31

/** Sends the events of attempts to the bridge that gave the job, and resends them until the bridge acknowledges them. */
export class AttemptOutbox {
  readonly #ledger: JobLedger
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #connections = new Map<string, Connection>()
  readonly #attempts = new Map<string, OpenAttempt>()

  constructor(ledger: JobLedger, clock: Clock, logger: Logger) {
    this.#ledger = ledger
    this.#clock = clock
    this.#logger = logger
  }

  /** @param link address of the broker @param publisher undefined: the connection ended */
  onConnection(link: string, publisher: Pick<Publisher, 'publish'> | undefined): void {
    if (!publisher) return void this.#connections.delete(link)
    this.#connections.set(link, { publisher, resend: firstResend })
    this.#tryResend(link)
  }

  /** The bridge is there again: unacknowledged events are resent without delay. */
  onBridgeMessage(link: string): void {
    const connection = this.#connections.get(link)
    if (connection) connection.resend = firstResend
  }

  /** The open attempt of an entry; a new one begins with the event `accepted`. */
  open(entry: LedgerEntry): OpenAttempt {
    const known = this.#attempts.get(keyOf(entry))
    if (known?.entry.attempt === entry.attempt) return known
    const attempt: OpenAttempt = { entry, openedMs: this.#clock.nowMs(), events: [], n: 0 }
    this.#attempts.set(keyOf(entry), attempt)
    this.report(attempt, { type: 'accepted' })
    return attempt
  }

  report(attempt: OpenAttempt, progress: AttemptProgress): void {
    attempt.n += 1
    const event: JobEvent = { ...addressOf(attempt.entry), n: attempt.n, at: nowIso(), ...progress }
    attempt.events.push(event)
    this.publish(attempt.entry.link, event)
  }

  /** @throws if the disk does not store the event; the bridge is sent it all the same, once */
  finish(attempt: OpenAttempt, outcome: Outcome): void {
    const { entry, n } = attempt
    try {
      this.#finish(entry, outcome, n + 1)
    } catch (error) {
      if (!attempt.unstored) {
        attempt.unstored = finalEvent(entry, outcome, n + 1)
        this.publish(entry.link, attempt.unstored)
      }
      throw error
    }
  }

  /** Ends an attempt of an earlier start of the agent, whose result is unknown. */
  interrupt(entry: LedgerEntry): void {
    this.#finish(entry, interrupted, afterAllEvents)
  }

  acknowledge({ bridge, job, attempt, n }: JobAck): void {
    const open = this.#attempts.get(keyOf({ bridge, job }))
    if (open?.entry.attempt === attempt) open.events = open.events.filter((event) => event.n > n)
    this.#ledger.acknowledge(bridge, job, attempt, n)
  }

  /** Resends the unacknowledged events of one open job. */
  resend(entry: LedgerEntry): void {
    for (const event of this.#attempts.get(keyOf(entry))?.events ?? []) this.publish(entry.link, event)
  }

  /** Call it at a fixed interval. A bridge that stays silent is sent events less and less often: a link may be metered. */
  resendDue(): void {
    for (const [link, connection] of this.#connections) {
      const { isDue, state } = nextResend(connection.resend)
      connection.resend = state
      if (isDue) this.#tryResend(link)
    }
  }

  /** Publishes the event if the broker is connected. */
  publish(link: string, event: JobEvent): void {
    void this.#connections.get(link)?.publisher.publish('events', JSON.stringify(event), event.bridge)
  }

  #finish(entry: LedgerEntry, outcome: Outcome, n: number): void {
    const event = finalEvent(entry, outcome, n)
    if (!this.#ledger.finish(event)) return
    this.#attempts.delete(keyOf(entry))
    this.publish(entry.link, event)
  }

  #tryResend(link: string): void {
    tryOrLog(this.#logger, 'unacknowledged job events not read', () => {
      const open = [...this.#attempts.values()].flatMap(({ entry, events }) => (entry.link === link ? events : []))
      const final = this.#ledger.open().flatMap((entry) => (entry.link === link && entry.lastEvent ? [entry.lastEvent] : []))
      for (const event of [...open, ...final]) this.publish(link, event)
    })
  }
}

const finalEvent = (entry: LedgerEntry, outcome: Outcome, n: number): FinalEvent => ({
  ...addressOf(entry),
  n,
  at: nowIso(),
  ...outcome,
})

const keyOf = ({ bridge, job }: { bridge: string; job: string }) => `${bridge} ${job}`
const addressOf = ({ bridge, job, attempt }: LedgerEntry) => ({ v: 1 as const, bridge, job, attempt })
