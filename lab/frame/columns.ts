/** Rows with the values of each name together, as a document keeps thousands of them. */
export type Columns<Row> = { readonly [Name in keyof Row]: readonly Row[Name][] }

export function toColumns<Row extends object, Name extends keyof Row>(
  rows: readonly Row[],
  names: readonly Name[],
): Columns<Pick<Row, Name>> {
  const columns = names.map((name) => [name, rows.map((row) => row[name])])
  return Object.fromEntries(columns) as unknown as Columns<Pick<Row, Name>>
}

export function fromColumns<Row extends object>(columns: Columns<Row>): Row[] {
  const names = Object.keys(columns) as (keyof Row)[]
  const count = names.length === 0 ? 0 : columns[names[0]!].length
  return Array.from({ length: count }, (_, at) => Object.fromEntries(names.map((name) => [name, columns[name][at]])) as Row)
}

/** Some fields of a row. */
export const picked = <Row extends object, Name extends keyof Row>(row: Row, names: readonly Name[]): Pick<Row, Name> =>
  Object.fromEntries(names.map((name) => [name, row[name]])) as Pick<Row, Name>
