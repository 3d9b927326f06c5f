import { deviceRank, shortState, shownProblems } from '../../core/policy/fleet/problem-order.ts'
import type { FleetRow } from '../../core/wire/protocol/http/devices.ts'

/** Figures that the list can be sorted by; `problems`: the most severe first. */
export const sortKeys = [
  'problems',
  'id',
  'hottestC',
  'batteryPercent',
  'upBytesPerS',
  'model',
  'agent',
  'tokensPerS',
  'jobs',
  'seenS',
] as const
export type SortKey = (typeof sortKeys)[number]

export interface ListView {
  /** Words that a device must all have: `site=lab`, `lost`, a part of its name, module, model or version. */
  readonly filter: string
  readonly sort: SortKey
  readonly isDescending: boolean
  /** Label by which devices are grouped; empty: by none. */
  readonly group: string
}

export type FleetItem =
  | { readonly kind: 'group'; readonly label: string; readonly count: number }
  | { readonly kind: 'device'; readonly row: FleetRow }

/** The lines of the list: devices in their order, with a heading for each group. */
export function fleetItems(rows: Iterable<FleetRow>, view: ListView): FleetItem[] {
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean)
  const shown = [...rows]
    .filter((row) => words.every((word) => hasWord(row, word)))
    .map((row) => ({ row, key: keyOf(row, view.sort) }))
  const sign = view.isDescending ? -1 : 1
  shown.sort((a, b) => compare(a.key, b.key, sign) || (a.row.id < b.row.id ? -1 : 1))
  const items = shown.map(({ row }): FleetItem => ({ kind: 'device', row }))
  if (view.group === '') return items
  const groups = new Map<string, FleetItem[]>()
  for (const { row } of shown) {
    const value = row.labels[view.group]
    const label = value === undefined ? `without ${view.group}` : `${view.group}=${value}`
    const group = groups.get(label)
    if (group) group.push({ kind: 'device', row })
    else groups.set(label, [{ kind: 'device', row }])
  }
  return [...groups]
    .sort(([a], [b]) => a.localeCompare(b))
    .flatMap(([label, devices]): FleetItem[] => [{ kind: 'group', label, count: devices.length }, ...devices])
}

/** Of each kind of problem, how many devices have it, the most severe first. */
export function problemCounts(rows: Iterable<FleetRow>): ReadonlyMap<string, number> {
  return countsOf(rows, (row) => shownProblems(row).map(({ kind }) => kind))
}

export const stateCounts = (rows: Iterable<FleetRow>): ReadonlyMap<string, number> => countsOf(rows, (row) => [shortState(row)])

/** Names of all labels. */
export const labelNames = (rows: Iterable<FleetRow>): string[] =>
  [...new Set([...rows].flatMap(({ labels }) => Object.keys(labels)))].sort()

function countsOf(rows: Iterable<FleetRow>, wordsOf: (row: FleetRow) => readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const row of rows) for (const word of new Set(wordsOf(row))) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}

function hasWord(row: FleetRow, word: string): boolean {
  const [name, value] = word.split('=', 2)
  if (value !== undefined)
    return Object.entries(row.labels).some(([key, own]) => key.toLowerCase() === name && own.toLowerCase() === value)
  const texts = [
    row.id,
    shortState(row),
    row.module,
    row.model,
    row.agent,
    row.provider,
    ...shownProblems(row).map(({ kind }) => kind),
  ]
  return texts.some((text) => text?.toLowerCase().includes(word) === true)
}

const keyOf = (row: FleetRow, sort: SortKey): string | number | null => (sort === 'problems' ? deviceRank(row) : row[sort])

/** What is unknown comes last, in either order. */
function compare(a: string | number | null, b: string | number | null, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return a === b ? 0 : a < b ? -sign : sign
}
