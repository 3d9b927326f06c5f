import type { Sequence } from './contract.ts'

/** What several parts hold for one stream that passes through them; between steps all of it has the same length. */
export class StackedSequence implements Sequence {
  readonly parts: readonly Sequence[]
  #state: 'idle' | 'in a step' | 'released in a step' | 'released' = 'idle'

  constructor(parts: readonly Sequence[]) {
    this.parts = parts
  }

  /**
   * A step through all the parts. If it fails, the sequences are as long as before, whichever part it had reached; one that
   * is released meanwhile is so when the step has ended.
   * @param owner named where a sequence is not a stack
   */
  static async step<Result>(
    sequences: readonly Sequence[],
    owner: string,
    run: (stacks: readonly StackedSequence[]) => Promise<Result>,
  ): Promise<Result> {
    const stacks = sequences.map((sequence) => {
      if (!(sequence instanceof StackedSequence)) throw new Error(`a sequence of another part was given to ${owner}`)
      sequence.#requireIdle()
      return sequence
    })
    if (new Set(stacks).size < stacks.length) throw new Error('one sequence stands twice in a step')
    for (const stack of stacks) stack.#state = 'in a step'
    try {
      return await run(stacks)
    } finally {
      for (const stack of stacks) stack.#finishStep()
    }
  }

  /** The last part's: in the midst of a step others may be ahead of it. */
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
      throw new Error('a sequence of another part')
    from.#requireIdle()
    try {
      this.parts.forEach((part, at) => {
        part.copyPrefix(from.parts[at]!, length)
      })
    } finally {
      this.#level()
    }
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

  #finishStep(): void {
    const wasReleased = this.#state === 'released in a step'
    this.#state = 'idle'
    this.#level()
    if (wasReleased) this.release()
  }

  /** Where not all parts have done what was to be done, none has. */
  #level(): void {
    const length = Math.min(...this.parts.map((part) => part.length))
    for (const part of this.parts) part.truncate(length)
  }

  #requireIdle(): void {
    if (this.#state !== 'idle') throw new Error(`a sequence was used while ${this.#state}`)
  }
}
