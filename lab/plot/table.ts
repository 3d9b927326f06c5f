/** A plain table for a terminal; numeric columns are right-aligned. */
export function layOutTable(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)))
  const isNumeric = head.map((_, column) => rows.every((row) => /^(?:\d|–$)/.test(row[column] ?? '')))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (isNumeric[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd()
  return [line(head), widths.map((width) => '─'.repeat(width)).join('──'), ...rows.map(line)]
}
