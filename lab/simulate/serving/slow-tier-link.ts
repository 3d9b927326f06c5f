import type { Simulation } from '../kernel/simulation.ts'

export interface SlowTierLinkOptions {
  readonly slowBytes: number
  /** Of one direction between the tiers; both work at once. */
  readonly transferBytesPerS: number
}

/** The way between the memory and a slow tier: pieces of KV move one after the other in each direction. Mutable. */
export class SlowTierLink {
  readonly #simulation: Simulation
  readonly #options: SlowTierLinkOptions
  /** When what was begun has ended. */
  #savedMs = 0
  #loadedMs = 0
  #usedBytes = 0
  /** Stream → bytes of its pages. */
  readonly #copies = new Map<number, number>()

  constructor(simulation: Simulation, options: SlowTierLinkOptions) {
    this.#simulation = simulation
    this.#options = options
  }

  /** Of so many bytes. */
  secondsOf(bytes: number): number {
    return bytes / this.#options.transferBytesPerS
  }

  /**
   * @param bytes to be written
   * @param endBytes of the stream's pages, from its first row to the last that is written
   * @returns when they are there; undefined: the tier is full
   */
  save(stream: number, bytes: number, endBytes: number): number | undefined {
    const heldBytes = this.#copies.get(stream) ?? 0
    const moreBytes = Math.max(0, endBytes - heldBytes)
    if (this.#usedBytes + moreBytes > this.#options.slowBytes) return undefined
    this.#usedBytes += moreBytes
    this.#copies.set(stream, heldBytes + moreBytes)
    this.#savedMs = Math.max(this.#savedMs, this.#simulation.nowMs) + 1_000 * this.secondsOf(bytes)
    return this.#savedMs
  }

  /** @returns when they are there */
  load(bytes: number): number {
    this.#loadedMs = Math.max(this.#loadedMs, this.#simulation.nowMs) + 1_000 * this.secondsOf(bytes)
    return this.#loadedMs
  }

  /** Frees the stream's pages. */
  drop(stream: number): void {
    this.#usedBytes -= this.#copies.get(stream) ?? 0
    this.#copies.delete(stream)
  }
}
