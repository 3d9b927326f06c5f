import type { Part, Sequence } from '../engine/contract.ts'
import { stepOnce } from '../engine/require-finite.ts'
import { RowTree } from '../engine/row-tree.ts'
import { StateRows } from './state-rows.ts'

/** The device's state of one token stream, as drafters read it. Drafts may branch. */
export interface KnownStream {
  /** The token of every row, drafted rows included. */
  readonly ids: readonly number[]
  /** The parent of every row. */
  readonly rows: RowTree
  readonly shallow: StateRows
  /** From the prompt's last position to the last verified one: the bridge returns no other deep states. */
  readonly deep: StateRows
}

/** A stream that grows by input steps on the device and by deep states from the bridge. */
export class DeviceStream implements KnownStream {
  readonly shallow: StateRows
  readonly deep: StateRows
  readonly #ids: number[] = []
  readonly #input: Part
  readonly #sequence: Sequence
  #rows = RowTree.empty

  /** @param input the bundle's part of that name; `hidden` is the width of its states */
  constructor(input: Part, hidden: number, promptTokens: number) {
    this.#input = input
    this.#sequence = input.createSequence()
    this.shallow = new StateRows(hidden)
    this.deep = new StateRows(hidden, promptTokens - 1)
  }

  get ids(): readonly number[] {
    return this.#ids
  }

  /** Memory that it takes. */
  get bytes(): number {
    return this.#sequence.bytes + this.shallow.bytes
  }

  /**
   * A stream of another prompt that begins with the first `length` rows of this one. Their deep states are not among its own.
   * @throws RangeError if a row before `length` branches; BrimError OUT_OF_MEMORY
   */
  copyOf(length: number, promptTokens: number): DeviceStream {
    const copy = new DeviceStream(this.#input, this.shallow.width, promptTokens)
    try {
      copy.#sequence.copyPrefix(this.#sequence, length)
    } catch (error) {
      copy.release()
      throw error
    }
    copy.shallow.append(this.shallow.slice(0, length))
    copy.#ids.push(...this.#ids.slice(0, length))
    copy.#rows = RowTree.lineOf(length)
    return copy
  }

  get rows(): RowTree {
    return this.#rows
  }

  /**
   * Appends tokens and computes their shallow rows.
   * @param parents the row that each follows; absent: the row before it
   * @throws BrimError RUNTIME_FAILED
   */
  async feed(tokens: readonly number[], parents?: readonly number[]): Promise<void> {
    const grown = this.#rows.extended(tokens.length, parents)
    this.shallow.append(await stepOnce(this.#input, { sequence: this.#sequence, ids: tokens, parents, select: 'all' }))
    this.#ids.push(...tokens)
    this.#rows = grown
  }

  /** Keeps the first `keep` rows, followed by `rows` in this order; the result does not branch. */
  gather(keep: number, rows: readonly number[]): void {
    const picked = rows.map((row) => this.#ids[row]!)
    this.#ids.length = keep
    this.#ids.push(...picked)
    this.shallow.gather(keep, rows)
    const { length } = this.deep
    this.deep.gather(
      Math.min(keep, length),
      rows.filter((row) => row < length),
    )
    this.#sequence.gather(keep, rows)
    this.#rows = RowTree.lineOf(keep + rows.length)
  }

  release(): void {
    this.#sequence.release()
  }
}
