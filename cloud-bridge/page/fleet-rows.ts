import { deviceRank, shortState, shownProblems } from '../../core/policy/fleet/problem-order.ts'
import type { FleetRow } from '../../core/wire/protocol/http/devices.ts'

/** A figure that the list can be sorted by; `problems`: the most severe first. */
export type SortKey = 'problems' | Exclude<keyof FleetRow, 'labels' | 'unusable' | 'isThrottled'>

export interface ListView {
  /** Words that a device must all have: `site=lab`, `lost`, a part of its name, module, model or version. */
  readonly filter: string
  readonly sort: SortKey
  readonly isDescending: boolean
  /** Label by which devices are grouped; empty: by none. */
  readonly group: string
}

export type ListItem =
  | { readonly kind: 'group'; readonly label: string; readonly count: number }
  | { readonly kind: 'device'; readonly row: FleetRow }

/** The lines of the list: devices in their order, with a heading for each group. */
export function fleetItems(rows: Iterable<FleetRow>, { filter, sort, isDescending, group }: ListView): ListItem[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean)
  const keyOf = (row: FleetRow) => (sort === 'problems' ? deviceRank(row) : row[sort])
  const shown = [...rows].filter((row) => words.every((word) => hasWord(row, word))).map((row) => ({ row, key: keyOf(row) }))
  shown.sort((a, b) => compare(a.key, b.key, isDescending) || (a.row.id < b.row.id ? -1 : 1))
  const groups = new Map<string, ListItem[]>()
  for (const { row } of shown) {
    const value = row.labels[group]
    const label = group === '' ? '' : value === undefined ? `without ${group}` : `${group}=${value}`
    const items = groups.get(label) ?? []
    groups.set(label, items)
    items.push({ kind: 'device', row })
  }
  return [...groups]
    .sort(([a], [b]) => a.localeCompare(b))
    .flatMap(([label, items]) => (label === '' ? items : [{ kind: 'group', label, count: items.length }, ...items]))
}

/** Of each kind of problem, how many devices have it. */
export const problemCounts = (rows: Iterable<FleetRow>) => countsOf(rows, (row) => shownProblems(row).map(({ kind }) => kind))

export const stateCounts = (rows: Iterable<FleetRow>) => countsOf(rows, (row) => [shortState(row)])

/** Names of all labels. */
export const labelNames = (rows: Iterable<FleetRow>) => [...countsOf(rows, ({ labels }) => Object.keys(labels)).keys()].sort()

function countsOf(rows: Iterable<FleetRow>, wordsOf: (row: FleetRow) => readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const row of rows) for (const word of new Set(wordsOf(row))) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}

function hasWord(row: FleetRow, word: string): boolean {
  if (word.includes('=')) return Object.entries(row.labels).some(([key, value]) => `${key}=${value}`.toLowerCase() === word)
  const kinds = shownProblems(row).map(({ kind }) => kind)
  const texts = [row.id, shortState(row), row.module, row.model, row.agent, row.provider, ...kinds]
  return texts.some((text) => text?.toLowerCase().includes(word) === true)
}

/** What is unknown comes last, in either order. */
function compare(a: string | number | null, b: string | number | null, isDescending: boolean): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return a === b ? 0 : a < b !== isDescending ? -1 : 1
}
