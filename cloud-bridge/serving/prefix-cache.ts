import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'
import type { Sequence } from '../../core/engine/contract.ts'

/** What a handle leads to: a KV that stands ready, or the session that goes on with it now. */
export type Kept<Owner> =
  | { readonly kind: 'ready'; readonly sequence: Sequence }
  | { readonly kind: 'taken'; readonly owner: Owner }

interface Entry<Owner> {
  readonly device: string
  readonly kept: Kept<Owner>
  readonly sinceMs: number
}

/**
 * KV that ended sessions leave behind, for the next turn of a conversation or another prompt that begins alike. The
 * bridge knows neither tokens nor hashes of them: a device names what it wants by a random handle, and only its own.
 */
export class KeptPrefixes<Owner> {
  readonly #entries = new Map<string, Entry<Owner>>()
  readonly #keepMs: number
  readonly #clock: Clock
  readonly #release: (sequence: Sequence) => void

  /** @param keepMs unused for so long it is given back; 0: nothing is kept */
  constructor(keepMs: number, clock: Clock, release: (sequence: Sequence) => void) {
    this.#keepMs = keepMs
    this.#clock = clock
    this.#release = release
  }

  /** Those that stand ready. */
  sequences(): Sequence[] {
    return this.#ready().map(({ sequence }) => sequence)
  }

  /** @returns the handle of a sequence, which is no longer the caller's; undefined: nothing is kept here, it has been given back */
  keep(device: string, sequence: Sequence): string | undefined {
    if (this.#keepMs === 0) {
      this.#release(sequence)
      return undefined
    }
    const handle = randomBytes(16).toString('hex')
    this.#set(handle, device, { kind: 'ready', sequence })
    return handle
  }

  find(device: string, handle: string): Kept<Owner> | undefined {
    const entry = this.#entries.get(handle)
    return entry?.device === device ? entry.kept : undefined
  }

  /** Nobody else finds a sequence that stood ready from now on. */
  take(handle: string): void {
    this.#entries.delete(handle)
  }

  /** Who wants the same meanwhile is led to the session that has taken it. */
  share(handle: string, device: string, owner: Owner): void {
    this.#set(handle, device, { kind: 'taken', owner })
  }

  /** The owner has ended: what it went on with is gone, or kept under another handle. */
  forget(owner: Owner): void {
    for (const [handle, { kept }] of this.#entries)
      if (kept.kind === 'taken' && kept.owner === owner) this.#entries.delete(handle)
  }

  /** This device's handles lead nowhere any more. */
  purge(device: string): void {
    for (const [handle, entry] of this.#entries) {
      if (entry.device !== device) continue
      if (entry.kept.kind === 'ready') this.#giveBack({ handle, sequence: entry.kept.sequence })
      else this.#entries.delete(handle)
    }
  }

  /** Gives back the one that has stood ready for longest; false where none does. */
  evict(): boolean {
    // Insertion order is the order of age.
    const [oldest] = this.#ready()
    if (oldest) this.#giveBack(oldest)
    return oldest !== undefined
  }

  /** Gives back what has stood ready for too long. */
  expire(): void {
    const beforeMs = this.#clock.nowMs() - this.#keepMs
    for (const one of this.#ready()) if (one.sinceMs <= beforeMs) this.#giveBack(one)
  }

  /** Gives everything back that stands ready. */
  clear(): void {
    for (const one of this.#ready()) this.#giveBack(one)
  }

  #set(handle: string, device: string, kept: Kept<Owner>): void {
    this.#entries.set(handle, { device, kept, sinceMs: this.#clock.nowMs() })
  }

  #ready(): { handle: string; sequence: Sequence; sinceMs: number }[] {
    return [...this.#entries].flatMap(([handle, { kept, sinceMs }]) =>
      kept.kind === 'ready' ? [{ handle, sequence: kept.sequence, sinceMs }] : [],
    )
  }

  #giveBack({ handle, sequence }: { handle: string; sequence: Sequence }): void {
    this.#entries.delete(handle)
    this.#release(sequence)
  }
}
