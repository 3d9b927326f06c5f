import type { Sequence } from './contract.ts'

/** What `input` and `middle` hold for one stream; both have the same length between steps. */
export class ChainSequence implements Sequence {
  readonly input: Sequence
  readonly middle: Sequence

  constructor(input: Sequence, middle: Sequence) {
    this.input = input
    this.middle = middle
  }

  get length(): number {
    return this.middle.length
  }

  get line(): number {
    return this.middle.line
  }

  get capacity(): number {
    return Math.min(this.input.capacity, this.middle.capacity)
  }

  get bytes(): number {
    return this.input.bytes + this.middle.bytes
  }

  truncate(length: number): void {
    this.input.truncate(length)
    this.middle.truncate(length)
  }

  gather(keep: number, rows: readonly number[]): void {
    this.input.gather(keep, rows)
    this.middle.gather(keep, rows)
  }

  copyPrefix(from: Sequence, length: number): void {
    if (!(from instanceof ChainSequence)) throw new Error('a sequence of another chain')
    this.input.copyPrefix(from.input, length)
    this.middle.copyPrefix(from.middle, length)
  }

  release(): void {
    this.input.release()
    this.middle.release()
  }

  /** After a step that reached `input` only. */
  dropHalfStep(): void {
    this.input.truncate(this.middle.length)
  }
}
