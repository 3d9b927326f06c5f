import type { Clock } from '../../core/kit/base/clock.ts'

/** How long a conflict counts as a problem after the last attempt to connect of the second device. */
const countsForMs = 10 * 60_000
/** Beyond this many the oldest is forgotten. */
const maxConflicts = 1_000

/** Devices under whose id another one has tried to connect. Only ids that are connected at that time get an entry. */
export class IdConflicts {
  readonly #clock: Clock
  readonly #last = new Map<string, { readonly address: string; readonly atMs: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param address of the second device */
  add(device: string, address: string): void {
    this.#last.delete(device)
    const [oldest] = this.#last.keys()
    if (oldest !== undefined && this.#last.size >= maxConflicts) this.#last.delete(oldest)
    this.#last.set(device, { address, atMs: this.#clock.nowMs() })
  }

  /** Address of the second device; undefined: there has been none for some time. */
  addressOf(device: string): string | undefined {
    const last = this.#last.get(device)
    if (!last) return undefined
    if (this.#clock.nowMs() - last.atMs < countsForMs) return last.address
    this.#last.delete(device)
    return undefined
  }
}
