import { stripVTControlCharacters } from 'node:util'

interface Column {
  readonly title: string
  readonly text: string
}

/**
 * Texts in columns of equal width, wrapped at spaces, as lines for a terminal.
 * @param width of the terminal, in characters
 * @param height maximum lines of text per column; the last ones are shown
 */
export function layOutColumns(columns: readonly Column[], width: number, height: number): string[] {
  const gap = ' │ '
  const inner = Math.max(16, Math.floor((width - gap.length * (columns.length - 1)) / columns.length))
  const wrapped = columns.map((column) => wrap(column.text, inner).slice(-height))
  const rows = Math.max(...wrapped.map((lines) => lines.length))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell) => cell.slice(0, inner).padEnd(inner))
      .join(gap)
      .trimEnd()
  const rule = columns.map(() => '─'.repeat(inner)).join('─┼─')
  return [
    line(columns.map((column) => column.title)),
    rule,
    ...Array.from({ length: rows }, (_, row) => line(wrapped.map((lines) => lines[row] ?? ''))),
  ]
}

function wrap(text: string, width: number): string[] {
  // As many characters as fit before a space or the end; a longer word is cut.
  const lines = new RegExp(`.{1,${width}}(?: |$)|.{1,${width}}`, 'gu')
  return clean(text)
    .split('\n')
    .flatMap((paragraph) => paragraph.match(lines) ?? [''])
}

/** Without control characters, which a model's answer could send to the terminal. */
export const clean = (text: string): string => stripVTControlCharacters(text).replace(/[^\P{Cc}\n]/gu, ' ')
