import { concatStates, type States, sliceStates } from '../../wire/protocol/states.ts'
import type { StepInput } from './contract.ts'

/** What a row was computed from: a token id, a row of states, or both. */
export type RowSource =
  | number
  | {
      readonly states: States
      readonly features: States | undefined
      readonly row: number
      readonly id: number | undefined
    }

/** Copies: the memory of states is that of the caller. */
export function sourcesOf(item: StepInput): RowSource[] {
  if (!('states' in item)) return [...item.ids]
  const states = concatStates([item.states], item.states.width)
  const features = item.features && concatStates([item.features], item.features.width)
  const ids = 'ids' in item ? item.ids : []
  return Array.from({ length: states.rows }, (_, row) => ({ states, features, row, id: ids[row] }))
}

/** Of at least one row. */
export function inputFrom(sources: readonly RowSource[]): StepInput {
  const rows = sources.flatMap((source) => (typeof source === 'number' ? [] : [source]))
  const [first] = rows
  if (!first) return { ids: sources.flatMap((source) => (typeof source === 'number' ? [source] : [])) }
  const joined = (pick: (row: (typeof rows)[number]) => States | undefined) =>
    concatStates(
      rows.flatMap((source) => {
        const block = pick(source)
        return block ? [sliceStates(block, source.row, source.row + 1)] : []
      }),
      first.states.width,
    )
  const states = joined(({ states }) => states)
  const features = first.features && joined(({ features }) => features)
  const ids = rows.flatMap(({ id }) => (id === undefined ? [] : [id]))
  return features && ids.length > 0 ? { ids, states, features } : { states, features }
}
