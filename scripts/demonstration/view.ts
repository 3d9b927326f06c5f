import type { Io } from '../../core/kit/base/io.ts'
import { clean, layOutColumns } from '../../lab/plot/side-by-side.ts'

/** A question to a device. */
export interface AskedText {
  readonly device: string
  readonly prompt: string
}

/**
 * Shows answers while they arrive: side by side in a terminal, else one line per question and, at the end, one per answer.
 * With `quiet` (--json) they go to stderr, because stdout is for the document.
 */
export class DemoView {
  readonly #asked: readonly AskedText[]
  readonly #texts: string[]
  readonly #io: Io
  readonly #print: (line: string) => void
  readonly #live: boolean
  #drawnLines = 0
  #drawnAtMs = 0

  constructor(asked: readonly AskedText[], io: Io, quiet: boolean) {
    this.#asked = asked
    this.#texts = asked.map(() => '')
    this.#io = io
    this.#print = quiet ? io.err : io.out
    this.#live = io.outIsTty && !quiet
    if (!this.#live) for (const { device, prompt } of asked) this.#print(`> ${device}: ${prompt}`)
  }

  add(column: number, text: string): void {
    this.#texts[column] += text
    // Redrawing at every token would take longer than the tokens.
    if (this.#live && performance.now() - this.#drawnAtMs > 50) this.#draw()
  }

  close(): void {
    if (this.#live) this.#draw()
    else
      for (const [column, { device }] of this.#asked.entries()) {
        const text = clean(this.#texts[column] ?? '')
          .trim()
          .replaceAll('\n', ' / ')
        this.#print(`< ${device}: ${text}`)
      }
    this.#print('')
  }

  #draw(): void {
    const { columns, rows } = process.stdout
    const lines = layOutColumns(
      this.#asked.map(({ device, prompt }, column) => ({ title: device, text: `> ${prompt}\n\n${this.#texts[column]}` })),
      columns ?? 100,
      Math.max(4, (rows ?? 24) - 6),
    )
    const up = this.#drawnLines > 0 ? `\x1b[${this.#drawnLines}A` : ''
    this.#io.raw.out(`${up}${lines.map((line) => `\x1b[2K${line}\n`).join('')}`)
    this.#drawnLines = Math.max(this.#drawnLines, lines.length)
    this.#drawnAtMs = performance.now()
  }
}
