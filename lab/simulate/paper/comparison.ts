import type { Table } from '../../frame/bench.ts'

/** One figure of a paper beside ours. */
export interface PaperCell {
  /** The paper's table or figure, in its numbering. */
  readonly place: string
  /** What it is of: 'SpecBench, 6 req/s, HAT'. */
  readonly row: string
  readonly metric: string
  /** What the paper prints; null where it prints a curve without numbers. */
  readonly paper: number | null
  /** The paper's method on the paper's set-up, simulated. */
  readonly ours: number
  /** With what Brim adds to it (shared prefix, better drafters, int8 states, incremental planning, age bounds). */
  readonly improved?: number
  readonly unit: string
  /** Why they differ, where they do by more than 25 %. */
  readonly remark?: string
}

/** As issue and papers are compared: within a quarter of the paper's value. */
export const tolerance = 0.25

export const isWithin = ({ paper, ours }: PaperCell): boolean =>
  paper === null || Math.abs(ours - paper) <= tolerance * Math.abs(paper)

/** Of the cells that the paper has a number for. */
export function countsOf(cells: readonly PaperCell[]) {
  const compared = cells.filter(({ paper }) => paper !== null)
  const within = compared.filter(isWithin).length
  const open = unexplained(compared).length
  return {
    compared: compared.length,
    within,
    withinShare: within / compared.length,
    explained: compared.length - within - open,
    unexplained: open,
    orderingsKept: orderingsKept(compared),
  }
}

/** Figures that differ by less are no rank. */
const tie = 0.05

/** Share of the pairs of methods in one figure of the paper, of which the same one is ahead here; NaN where no two can be compared. */
export function orderingsKept(cells: readonly PaperCell[]): number {
  const pairs = cells.flatMap((one, at) =>
    cells
      .slice(at + 1)
      .filter((other) => areComparable(one, other) && Math.abs(one.paper! / other.paper! - 1) >= tie)
      .map((other) => Math.sign(one.paper! - other.paper!) === Math.sign(one.ours - other.ours)),
  )
  return pairs.filter((isKept) => isKept).length / pairs.length
}

const areComparable = (one: PaperCell, other: PaperCell): boolean =>
  one.place === other.place && one.metric === other.metric && one.row.split(',')[0] === other.row.split(',')[0]

/** Cells that differ by more, and that no remark explains. */
export const unexplained = (cells: readonly PaperCell[]): readonly PaperCell[] =>
  cells.filter((cell) => !isWithin(cell) && cell.remark === undefined)

/** A table for each place, in the order of the cells. */
export function comparisonTables(cells: readonly PaperCell[]): readonly Table[] {
  const places = [...new Set(cells.map(({ place }) => place))]
  return places.map((place) => {
    const own = cells.filter((cell) => cell.place === place)
    const improves = own.some(({ improved }) => improved !== undefined)
    return {
      title: place,
      head: ['', 'metric', 'paper', 'simulated', ...(improves ? ['with Brim’s additions'] : []), 'simulated / paper', ''],
      rows: own.map((cell) => [
        cell.row,
        cell.unit === '' ? cell.metric : `${cell.metric}, ${cell.unit}`,
        cell.paper === null ? '–' : shown(cell.paper),
        shown(cell.ours),
        ...(improves ? [cell.improved === undefined ? '–' : shown(cell.improved)] : []),
        cell.paper ? (cell.ours / cell.paper).toFixed(2) : '–',
        cell.remark ?? '',
      ]),
    }
  })
}

const shown = (value: number): string => String(Number(value.toPrecision(4)))
