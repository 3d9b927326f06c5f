import type { Store } from '../../core/kit/store/open-database.ts'
import { dayOf } from '../../core/policy/quota/quota.ts'

const dayMs = 86_400_000

/** Bytes of job events and results that each device has stored today (UTC): in memory, and in the table `device_days`. */
export class DeviceUsage {
  readonly #maxBytes: number
  readonly #read
  readonly #write
  #day = ''
  /** Of `#day`, UTC ms. */
  #dayMs = { from: 0, until: 0 }
  #bytes = new Map<string, number>()
  readonly #unstored = new Set<string>()

  /** @param store must have the tables of `jobTables` */
  constructor(store: Store, maxBytes: number) {
    this.#maxBytes = maxBytes
    this.#read = store.prepare<[string], { device: string; bytes: number }>('SELECT device, bytes FROM device_days WHERE day = ?')
    this.#write = store.prepare<[string, string, number]>(
      'INSERT OR REPLACE INTO device_days (device, day, bytes) VALUES (?, ?, ?)',
    )
  }

  /** @param nowMs wall clock */
  bytesOf(device: string, nowMs: number): number {
    this.renew(nowMs)
    return this.#bytes.get(device) ?? 0
  }

  /** Whether the device has stored as much as it may on this day. @param nowMs wall clock */
  isExhausted(device: string, nowMs: number): boolean {
    return this.bytesOf(device, nowMs) >= this.#maxBytes
  }

  /** The devices that have. @param nowMs wall clock */
  exhausted(nowMs: number): string[] {
    this.renew(nowMs)
    return [...this.#bytes].flatMap(([device, bytes]) => (bytes >= this.#maxBytes ? [device] : []))
  }

  /** Counts in memory; call `store` in the same transaction. @returns whether the device has just exhausted its quota */
  add(device: string, bytes: number, nowMs: number): boolean {
    const wasExhausted = this.isExhausted(device, nowMs)
    this.#bytes.set(device, this.bytesOf(device, nowMs) + bytes)
    this.#unstored.add(device)
    return !wasExhausted && this.isExhausted(device, nowMs)
  }

  /** Stores what has been added since. */
  store(): void {
    for (const device of this.#unstored) this.#write.run(device, this.#day, this.#bytes.get(device) ?? 0)
    this.#unstored.clear()
  }

  /** The transaction failed: only what is on disk counts. */
  rollBack(): void {
    this.#unstored.clear()
    this.#dayMs = { from: 0, until: 0 }
  }

  /** Begins a new day when it is time: call it often. @returns whether a device was exhausted on the day that has ended */
  renew(nowMs: number): boolean {
    if (nowMs >= this.#dayMs.from && nowMs < this.#dayMs.until) return false
    const day = dayOf(nowMs)
    const wasExhausted = [...this.#bytes.values()].some((bytes) => bytes >= this.#maxBytes)
    this.#bytes = new Map(this.#read.all(day).map(({ device, bytes }) => [device, bytes]))
    this.#day = day
    const from = Date.parse(day)
    this.#dayMs = { from, until: from + dayMs }
    return wasExhausted
  }
}
