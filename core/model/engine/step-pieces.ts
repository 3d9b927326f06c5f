import { sliceStates } from '../../wire/protocol/states.ts'
import type { StepItem } from './contract.ts'

/** An item's rows in pieces of at most `maxRows`, each of which follows the one before it. @throws RangeError if `select` is not ascending */
export function stepPieces(item: StepItem, maxRows: number): StepItem[] {
  const rows = rowsOf(item)
  if (rows <= maxRows) return [item]
  return Array.from({ length: Math.ceil(rows / maxRows) }, (_, at) => {
    const from = at * maxRows
    return pieceOf(item, from, Math.min(from + maxRows, rows), rows)
  })
}

export const rowsOf = (item: StepItem): number => ('ids' in item ? item.ids.length : item.states.rows)

function pieceOf(item: StepItem, from: number, to: number, rows: number): StepItem {
  const { sequence } = item
  const rest = { sequence, parents: item.parents?.slice(from, to), select: selectWithin(item.select, from, to, rows) }
  if ('ids' in item) return { ...rest, ids: item.ids.slice(from, to) }
  const { states, features } = item
  return { ...rest, states: sliceStates(states, from, to), features: features && sliceStates(features, from, to) }
}

function selectWithin(select: StepItem['select'], from: number, to: number, rows: number): StepItem['select'] {
  if (select === 'all' || select === 'none') return select
  if (select === 'last') return to === rows ? 'last' : 'none'
  if (select.some((row, at) => row < (select[at - 1] ?? 0)))
    throw new RangeError('rows of a step in pieces are returned in order')
  return select.filter((row) => row >= from && row < to).map((row) => row - from)
}
