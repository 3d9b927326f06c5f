import type { Clock } from '../../core/kit/base/clock.ts'

/** A lease ends after this time without a renewal, by the clock of the database. */
export const leaseMs = 5_000
/** How long before that end it no longer counts as held here. */
const marginMs = 1_000

/** The lease of this node, as far as it knows. */
export class HeldLease {
  readonly #clock: Clock
  readonly #renew: () => Promise<boolean>
  /** When the latest renewal that succeeded was sent; both clocks, since each may stand still or jump while a machine sleeps. */
  #confirmed: { readonly nowMs: number; readonly wallMs: number } | undefined
  #isLost = false

  /** @param renew in the database; false: another node has the lease */
  constructor(clock: Clock, renew: () => Promise<boolean>) {
    this.#clock = clock
    this.#renew = renew
  }

  /** @returns false: another node has it. Throws what `renew` throws */
  async renew(): Promise<boolean> {
    const sent = { nowMs: this.#clock.nowMs(), wallMs: Date.now() }
    this.#isLost ||= !(await this.#renew())
    if (!this.#isLost) this.#confirmed = sent
    return !this.#isLost
  }

  /** Renews it where it may have ended meanwhile. @returns false: another node has it. Throws what `renew` throws */
  async confirm(): Promise<boolean> {
    if (this.#isLost) return false
    const { nowMs, wallMs } = this.#confirmed ?? { nowMs: Number.NEGATIVE_INFINITY, wallMs: Number.NEGATIVE_INFINITY }
    const isRecent = (passedMs: number) => passedMs >= 0 && passedMs < leaseMs - marginMs
    return (isRecent(this.#clock.nowMs() - nowMs) && isRecent(Date.now() - wallMs)) || this.renew()
  }
}
