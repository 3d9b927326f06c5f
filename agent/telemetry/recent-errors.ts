import { nowIso } from '../../core/kit/base/clock.ts'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'

const maxKinds = 5
/** Error codes of Brim and of the system. Anything else could quote a prompt. */
const codePattern = /^[A-Z][A-Z0-9_]{1,40}$/

/** The last few kinds of failure: codes, times and counts. Messages are left out: they could quote a prompt. */
export class RecentErrors {
  readonly #kinds = new Map<string, DeviceCondition['errors'][number]>()

  /** @param thrown anything; without a code it counts as UNEXPECTED */
  add(thrown: unknown): void {
    const ownCode = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined
    const code = typeof ownCode === 'string' && codePattern.test(ownCode) ? ownCode : 'UNEXPECTED'
    const count = (this.#kinds.get(code)?.count ?? 0) + 1
    this.#kinds.delete(code)
    this.#kinds.set(code, { code, at: nowIso(), count })
    const [oldest] = this.#kinds.keys()
    if (this.#kinds.size > maxKinds && oldest !== undefined) this.#kinds.delete(oldest)
  }

  /** Newest first. */
  get list(): DeviceCondition['errors'] {
    return [...this.#kinds.values()].reverse()
  }
}
