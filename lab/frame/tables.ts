import type { Table } from './bench.ts'

/** A column of a table: its head, and what it has in a row. */
export type Column<Row> = readonly [head: string, cell: (row: Row) => string]

export const tableOf = <Row>(title: string, rows: readonly Row[], columns: readonly Column<Row>[]): Table => ({
  title,
  head: columns.map(([head]) => head),
  rows: rows.map((row) => columns.map(([, cell]) => cell(row))),
})

/** With as many digits after the point; a dash for what was not measured. */
export const toDigits = (value: number | null | undefined, digits: number): string =>
  value == null ? '–' : value.toFixed(digits)

export const toPercent = (share: number | null | undefined, digits = 0): string =>
  share == null ? '–' : `${(100 * share).toFixed(digits)} %`

/** Without digits that say nothing. */
export const toShort = (value: number, digits = 4): string => String(Number(value.toPrecision(digits)))
