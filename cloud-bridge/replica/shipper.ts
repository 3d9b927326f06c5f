import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import type { FileRow } from './fleet-database.ts'
import type { UncopiedRows } from './replica-files.ts'

/** Interval at which changes are copied that nothing waits for. */
const idleMs = 100
/** Interval of attempts while the database cannot be reached. */
const retryMs = 500
/** Time for which a response waits for the database. */
const storeTimeoutMs = 10_000
/** Messages that wait for it; of more, senders repeat what matters. */
const maxWaiting = 10_000

export interface ShipperOptions {
  readonly files: { read(): UncopiedRows }
  /** @returns false: another node has the lease */
  readonly ship: (rows: readonly FileRow[]) => Promise<boolean>
  /** Resolves once the lease is known to be held now. @returns false: another node has it */
  readonly confirmLease: () => Promise<boolean>
  /** Another node has the lease. */
  readonly onLost: () => void
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * Copies what the primary stores to PostgreSQL. Nothing leaves the primary before what it has stored until then is there: so the next
 * primary knows everything that a device or a client has been told. Nothing leaves one that has lost its lease.
 */
export class Shipper {
  readonly #options: ShipperOptions
  readonly #stopTicking: () => Promise<void>
  /** Called once what was stored before is copied. */
  #waiting: (() => void)[] = []
  #shipping: Promise<void> | undefined
  #isEnded = false
  #isClosing = false
  /** Why the database has not stored the latest changes. */
  failure: string | undefined

  constructor(options: ShipperOptions) {
    this.#options = options
    this.#stopTicking = repeatEvery(options.clock, idleMs, () => this.#begin())
  }

  /** Calls `send` once all that is stored now is copied; in order; never, where the lease is lost or too many wait. */
  readonly after = (send: () => void): void => {
    if (this.#isEnded || this.#waiting.length >= maxWaiting) return
    this.#waiting.push(send)
    this.#begin()
  }

  /** @throws BrimError DATABASE_UNAVAILABLE where that takes too long: whether it will be stored is not known */
  readonly stored = async (): Promise<void> => {
    const stored = new Promise<void>((resolve) => this.after(resolve))
    if (await withTimeout(storeTimeoutMs, stored, this.#options.clock)) return
    throw new BrimError('DATABASE_UNAVAILABLE', 'the database of this fleet has not stored the change yet', {
      cause: this.failure,
      hint: 'it may be stored later: repeat the request with the same key, or look whether it was',
      retryAfterMs: 1_000,
    })
  }

  /** Copies what is stored now, where the database can be reached. */
  async close(): Promise<void> {
    this.#isClosing = true
    await this.#stopTicking()
    await this.#shipping
    if (!this.#isEnded) await this.#ship()
    this.#isEnded = true
    this.#waiting = []
  }

  #begin(): void {
    if (this.#shipping || this.#isEnded || this.#isClosing) return
    // After this turn of the event loop: changes of one turn are copied together.
    this.#shipping = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#ship())
      .then((isDone) => (isDone ? undefined : this.#options.clock.sleep(retryMs)))
      .finally(() => {
        this.#shipping = undefined
        if (this.#waiting.length > 0) this.#begin()
      })
  }

  /** @returns false: the database does not store them now */
  async #ship(): Promise<boolean> {
    const { files, ship, confirmLease, onLost, logger } = this.#options
    const waiting = this.#waiting
    this.#waiting = []
    try {
      // Before the rows are read: after an outage they are many.
      let isHeld = waiting.length === 0 || (await confirmLease())
      const changes = files.read()
      if (isHeld && changes.rows.length > 0) isHeld = await ship(changes.rows)
      if (!isHeld) {
        this.#isEnded = true
        onLost()
        return true
      }
      changes.forget()
    } catch (err) {
      this.#waiting = [...waiting, ...this.#waiting]
      if (this.failure === undefined)
        logger.error({ err }, 'the database does not store changes: nothing is acknowledged until then')
      this.failure = err instanceof Error ? err.message : String(err)
      return false
    }
    if (this.failure !== undefined) logger.warn('the database stores changes again')
    this.failure = undefined
    for (const send of waiting) send()
    return true
  }
}
