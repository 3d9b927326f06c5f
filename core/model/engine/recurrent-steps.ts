import type { RecurrentShape } from '../bundle/state-shape.ts'
import type { Sequence, StepItem } from './contract.ts'
import { RecurrentSequence, type RecurrentStep } from './recurrent-sequence.ts'
import { StatePool } from './recurrent-states.ts'
import type { Runtime } from './runtime.ts'
import type { KvSequence } from './sequence.ts'

/** What the step of a part with recurrent layers needs besides its items, in their order. */
export interface RecurrentItems {
  readonly steps: readonly RecurrentStep[]
  /** Leading rows of each item that were computed before and are not returned. */
  readonly replayed: readonly number[]
}

type Step<Result> = (items: readonly StepItem[], recurrent: RecurrentItems) => Promise<Result>

/** Steps of a part with recurrent layers: gives each sequence the state before its rows and keeps the one after them. */
export class RecurrentSteps {
  readonly states: StatePool

  constructor(runtime: Runtime, shape: RecurrentShape) {
    this.states = new StatePool(runtime, shape)
  }

  createSequence(kv: KvSequence): RecurrentSequence {
    return new RecurrentSequence(this.states, kv)
  }

  /** @param step of the layers that attend: its items have their KV, and rows that are computed again before the new ones */
  async run<Result>(items: readonly StepItem[], step: Step<Result>): Promise<Result> {
    const sequences = items.map(({ sequence }) => this.#own(sequence))
    if (new Set(sequences).size < sequences.length) throw new Error('a step has the same sequence twice')
    items.forEach(({ parents }, at) => {
      if (parents?.some((parent, row) => parent !== sequences[at]!.length + row - 1))
        throw new RangeError('rows of a model with recurrent layers cannot branch')
    })
    for (const sequence of sequences) await sequence.catchUp((item, replay) => step([item], { steps: [replay], replayed: [0] }))
    const replayed = sequences.map(({ behind }) => behind)
    const given = items.map((item, at): StepItem => {
      const { kv: sequence } = sequences[at]!
      return { ...sequences[at]!.inputFor(item), sequence, select: selectAfter(item, replayed[at]!) }
    })
    const steps: RecurrentStep[] = []
    try {
      for (const sequence of sequences) steps.push(sequence.begin())
      const result = await step(given, { steps, replayed })
      sequences.forEach((sequence, at) => {
        sequence.commit(steps[at]!, items[at]!)
      })
      return result
    } catch (error) {
      steps.forEach((begun, at) => {
        sequences[at]!.abort(begun)
      })
      throw error
    }
  }

  #own(sequence: Sequence): RecurrentSequence {
    if (sequence instanceof RecurrentSequence && sequence.belongsTo(this.states)) return sequence
    throw new Error('a part with recurrent layers was given a sequence of another part')
  }
}

/** @param replayed rows before the new ones, which are not returned */
function selectAfter(item: StepItem, replayed: number): StepItem['select'] {
  const { select } = item
  if (replayed === 0 || select === 'last' || select === 'none') return select
  const rows =
    select === 'all' ? Array.from({ length: 'ids' in item ? item.ids.length : item.states.rows }, (_, at) => at) : select
  return rows.map((row) => row + replayed)
}
