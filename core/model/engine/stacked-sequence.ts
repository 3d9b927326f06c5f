import type { Sequence } from './contract.ts'

/** Memory of sequences that are made so: KV of one position, and what any sequence may take besides. */
export function sequenceBytesOf(create: () => Sequence): { readonly bytesPerPosition: number; readonly fixedBytes: number } {
  const sequence = create()
  const { rowValues, fixedBytes } = sequence
  sequence.release()
  return { bytesPerPosition: rowValues * Float32Array.BYTES_PER_ELEMENT, fixedBytes }
}

/** The sequences of successive parts for one stream. Between steps all have the same length. */
export class StackedSequence implements Sequence {
  readonly parts: readonly Sequence[]
  #state: 'idle' | 'in a step' | 'released in a step' | 'released' = 'idle'

  constructor(parts: readonly Sequence[]) {
    this.parts = parts
  }

  /**
   * Runs a step through all parts. If it fails, the sequences keep their lengths. A sequence that is released during the
   * step is freed at its end.
   * @param owner name of the part, for error messages
   */
  static async step<Result>(
    sequences: readonly Sequence[],
    owner: string,
    run: (stacks: readonly StackedSequence[]) => Promise<Result>,
  ): Promise<Result> {
    const stacks = sequences.map((sequence) => {
      if (!(sequence instanceof StackedSequence)) throw new Error(`${owner} was given a sequence of another part`)
      sequence.#requireIdle()
      return sequence
    })
    if (new Set(stacks).size < stacks.length) throw new Error('a step has the same sequence twice')
    for (const stack of stacks) stack.#state = 'in a step'
    try {
      return await run(stacks)
    } finally {
      for (const stack of stacks) stack.#finishStep()
    }
  }

  /** The length of the last part's sequence; during a step those of earlier parts may be longer. */
  get length(): number {
    return this.parts.at(-1)!.length
  }

  get line(): number {
    return this.parts.at(-1)!.line
  }

  get capacity(): number {
    return Math.min(...this.parts.map((part) => part.capacity))
  }

  get bytes(): number {
    return this.parts.reduce((sum, part) => sum + part.bytes, 0)
  }

  get rowValues(): number {
    return this.parts.reduce((sum, part) => sum + part.rowValues, 0)
  }

  get fixedBytes(): number {
    return this.parts.reduce((sum, part) => sum + part.fixedBytes, 0)
  }

  get held(): number {
    return Math.min(...this.parts.map((part) => part.held))
  }

  async readRows(from: number, to: number, into: Float32Array): Promise<void> {
    const reads: Promise<void>[] = []
    this.#eachShare(to - from, into, (part, rows) => {
      reads.push(part.readRows(from, to, rows))
    })
    await Promise.all(reads)
  }

  writeRows(from: number, to: number, rows: Float32Array): void {
    this.#requireIdle()
    this.#eachShare(to - from, rows, (part, own) => part.writeRows(from, to, own))
  }

  truncate(length: number): void {
    this.#requireIdle()
    for (const part of this.parts) part.truncate(length)
  }

  gather(keep: number, rows: readonly number[]): void {
    this.#requireIdle()
    for (const part of this.parts) part.gather(keep, rows)
  }

  copyPrefix(from: Sequence, length: number): void {
    this.#requireIdle()
    if (!(from instanceof StackedSequence) || from.parts.length !== this.parts.length)
      throw new Error('the sequence belongs to another part')
    from.#requireIdle()
    try {
      this.parts.forEach((part, at) => {
        part.copyPrefix(from.parts[at]!, length)
      })
    } finally {
      this.#level()
    }
  }

  claim(length: number, ids?: readonly number[]): boolean {
    this.#requireIdle()
    // Later parts compute from states.
    const isClaimed = this.parts.every((part, at) => part.claim(length, at === 0 ? ids : undefined))
    if (!isClaimed) this.truncate(0)
    return isClaimed
  }

  reserve(length: number): void {
    this.#requireIdle()
    for (const part of this.parts) part.reserve(length)
  }

  evict(): void {
    this.#requireIdle()
    for (const part of this.parts) part.evict()
  }

  release(): void {
    if (this.#state === 'in a step') this.#state = 'released in a step'
    if (this.#state !== 'idle') return
    this.#state = 'released'
    for (const part of this.parts) part.release()
  }

  /** The values of `count` rows belong to the parts one after another. */
  #eachShare(count: number, values: Float32Array, visit: (part: Sequence, values: Float32Array) => void): void {
    let at = 0
    for (const part of this.parts) {
      const size = count * part.rowValues
      visit(part, values.subarray(at, at + size))
      at += size
    }
  }

  #finishStep(): void {
    const wasReleased = this.#state === 'released in a step'
    this.#state = 'idle'
    this.#level()
    if (wasReleased) this.release()
  }

  /** Truncates all parts to the shortest, so that an operation takes effect in all parts or in none. */
  #level(): void {
    const length = Math.min(...this.parts.map((part) => part.length))
    for (const part of this.parts) part.truncate(length)
  }

  #requireIdle(): void {
    if (this.#state !== 'idle') throw new Error(`a sequence was used while ${this.#state}`)
  }
}
