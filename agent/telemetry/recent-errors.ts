import { nowIso } from '../../core/base/clock.ts'
import type { DeviceCondition } from '../../core/protocol/device-condition.ts'

const most = 5
/** Our codes and the system's. Anything else could be a sentence. */
const codePattern = /^[A-Z][A-Z0-9_]{1,40}$/

/** The last few kinds of failure: codes, times, counts; never a message, which might quote what was asked. */
export class RecentErrors {
  readonly #kinds = new Map<string, DeviceCondition['errors'][number]>()

  /** @param thrown anything; without a code of its own it is UNEXPECTED */
  add(thrown: unknown): void {
    const said = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined
    const code = typeof said === 'string' && codePattern.test(said) ? said : 'UNEXPECTED'
    const count = (this.#kinds.get(code)?.count ?? 0) + 1
    this.#kinds.delete(code)
    this.#kinds.set(code, { code, at: nowIso(), count })
    const [oldest] = this.#kinds.keys()
    if (this.#kinds.size > most && oldest !== undefined) this.#kinds.delete(oldest)
  }

  /** The newest first. */
  get list(): DeviceCondition['errors'] {
    return [...this.#kinds.values()].reverse()
  }
}
