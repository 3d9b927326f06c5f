import type { Io } from '../../core/kit/base/io.ts'
import { visibleLine } from '../../core/kit/base/visible-text.ts'

// Escape sequences of ECMA-48 and of every terminal since the VT100.
const clearBelow = '\x1b[J'
/** Down by a row in the same column; at the bottom the screen scrolls. */
const index = '\x1bD'
const up = (rows: number) => `\x1b[${rows}A`
const save = '\x1b7'
const restore = '\x1b8'
/** Long lines are cut at the right margin, so that each takes one row. */
const noWrap = '\x1b[?7l'
const wrap = '\x1b[?7h'
const dim = (text: string) => `\x1b[2m${text}\x1b[22m`

const defaultRows = 24
/** Rows that the text and the figures keep. */
const otherRows = 3

/** An answer that grows over its sketch on a terminal: the text so far, and under it the lines that it does not cover yet. */
export class SketchDisplay {
  readonly #io: Pick<Io, 'write' | 'raw' | 'outRows'>
  #lines: readonly string[] = []

  constructor(io: Pick<Io, 'write' | 'raw' | 'outRows'>) {
    this.#io = io
  }

  /** @param lines of the sketch that are left */
  sketch(lines: readonly string[]): void {
    this.#clear()
    this.#lines = lines
    this.#draw()
  }

  text(piece: string): void {
    this.#clear()
    this.#io.write(piece)
    this.#draw()
  }

  #clear(): void {
    if (this.#lines.length > 0) this.#io.raw.out(clearBelow)
  }

  #draw(): void {
    if (this.#lines.length === 0) return
    const maxRows = Math.max(1, (this.#io.outRows ?? defaultRows) - otherRows)
    const hidden = this.#lines.length - maxRows
    const rows = hidden > 0 ? [...this.#lines.slice(0, maxRows - 1), `… and ${hidden + 1} more`] : this.#lines
    // The screen scrolls before the cursor is saved, which stays at the end of the text.
    const room = index.repeat(rows.length) + up(rows.length)
    const shown = rows.map((line) => `\r\n${dim(visibleLine(line))}`).join('')
    this.#io.raw.out(room + save + noWrap + shown + wrap + restore)
  }
}
