import type { Sequence, StepItem } from '../../core/model/engine/contract.ts'
import { concatStates, type States, sliceStates } from '../../core/wire/protocol/states.ts'
import type { RowItem } from './served-model.ts'

/** Rows to append to a stream, and which of them come back: as in a StepItem. */
export interface Rows {
  readonly states: States
  readonly parents?: StepItem['parents']
  readonly select: StepItem['select']
}

export interface AppendResult {
  readonly states: States
  /** From the call to the result, without the computing. */
  readonly queueMs: number
  /** Of all steps that held some of the rows. */
  readonly computeMs: number
}

/** The rows of one append, while steps compute them piece by piece. */
export class PendingRows {
  readonly arrivedMs: number
  readonly #rows: Rows
  readonly #computed: States[] = []
  #waiting: number
  #computeMs = 0

  constructor(rows: Rows, arrivedMs: number) {
    this.arrivedMs = arrivedMs
    this.#rows = rows
    this.#waiting = rows.states.rows
  }

  /** The next `count` rows, and which of those come back. */
  piece(sequence: Sequence, count: number): RowItem {
    const { states, parents, select } = this.#rows
    if (count === states.rows) return { sequence, ...this.#rows }
    const from = states.rows - this.#waiting
    const to = from + count
    return {
      sequence,
      states: sliceStates(states, from, to),
      parents: parents?.slice(from, to),
      select: selectBetween(select, from, to, states.rows),
    }
  }

  /** A step has computed the next `count` rows. @returns the whole result with the last of them */
  add(returned: States, count: number, computeMs: number, nowMs: number): AppendResult | undefined {
    this.#computed.push(returned)
    this.#computeMs += computeMs
    this.#waiting -= count
    if (this.#waiting > 0) return undefined
    const states = this.#computed.length === 1 ? returned : concatStates(this.#computed, returned.width)
    return { states, queueMs: nowMs - this.arrivedMs - this.#computeMs, computeMs: this.#computeMs }
  }
}

export function selectedCount(select: StepItem['select'], rows: number): number {
  if (select === 'none') return 0
  if (select === 'last') return 1
  return select === 'all' ? rows : select.length
}

/** What `select` means for rows [from, to) of `rows`. */
function selectBetween(select: StepItem['select'], from: number, to: number, rows: number): StepItem['select'] {
  if (select === 'all' || select === 'none') return select
  if (select === 'last') return to === rows ? 'last' : 'none'
  const inside = select.filter((row) => row >= from && row < to).map((row) => row - from)
  return inside.length === 0 ? 'none' : inside
}
