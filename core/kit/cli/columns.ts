import { visibleLine } from '../base/visible-text.ts'
/** A table in plain text, its columns as wide as their widest cell, each row on one line. */
export function columns(cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map(visibleLine))
  const widths = rows.reduce<number[]>((all, row) => row.map((cell, at) => Math.max(all[at] ?? 0, cell.length)), [])
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
