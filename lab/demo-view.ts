import type { Io } from '../core/base/io.ts'
import { clean, layOutColumns } from './side-by-side.ts'

/**
 * Answers while they come: side by side and redrawn in a terminal, else a plain line per finished line of text. With
 * `quiet` (--json) they go to stderr, so that stdout holds the document alone.
 */
export class DemoView {
  readonly #titles: readonly string[]
  readonly #texts: string[]
  readonly #io: Io
  readonly #print: (line: string) => void
  readonly #live: boolean
  #drawnLines = 0
  #drawnAtMs = 0

  constructor(titles: readonly string[], io: Io, quiet: boolean) {
    this.#titles = titles
    this.#texts = titles.map(() => '')
    this.#io = io
    this.#print = quiet ? io.err : io.out
    this.#live = io.outIsTty && !quiet
    if (!this.#live) for (const title of titles) this.#print(`> ${title}`)
  }

  add(column: number, text: string): void {
    this.#texts[column] += text
    // Redrawing at every token would cost more than the tokens.
    if (this.#live && performance.now() - this.#drawnAtMs > 50) this.#draw()
  }

  close(): void {
    if (this.#live) this.#draw()
    else
      for (const [column, title] of this.#titles.entries()) {
        const text = clean(this.#texts[column] ?? '')
          .trim()
          .replaceAll('\n', ' / ')
        this.#print(`< ${title.split(':')[0]}: ${text}`)
      }
    this.#print('')
  }

  #draw(): void {
    const { columns, rows } = process.stdout
    const lines = layOutColumns(
      this.#titles.map((title, column) => ({ title, text: this.#texts[column] ?? '' })),
      columns ?? 100,
      Math.max(4, (rows ?? 24) - 6),
    )
    const up = this.#drawnLines > 0 ? `\x1b[${this.#drawnLines}A` : ''
    this.#io.write(`${up}${lines.map((line) => `\x1b[2K${line}\n`).join('')}`)
    this.#drawnLines = Math.max(this.#drawnLines, lines.length)
    this.#drawnAtMs = performance.now()
  }
}
