import { expect, it } from 'vitest'
import { SketchDisplay } from '../../../agent/commands/sketch-display.ts'

/** A terminal that knows the sequences of the display. It scrolls at the bottom, and wraps long lines unless told not to. */
class Screen {
  readonly #rows: number
  readonly #columns: number
  #cells: string[][]
  #row = 0
  #column = 0
  #saved: readonly [number, number] = [0, 0]
  #wraps = true

  constructor(rows: number, columns: number) {
    this.#rows = rows
    this.#columns = columns
    this.#cells = Array.from({ length: rows }, () => [])
  }

  write(text: string): void {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one.
    for (const [part] of text.matchAll(/\x1b(?:\[\??(\d*)([A-Za-z])|[D78])|[\s\S]/g)) this.#take(part)
  }

  get text(): string {
    const lines = this.#cells.map((row) => Array.from(row, (cell) => cell ?? ' ').join(''))
    return lines.join('\n').trimEnd()
  }

  #take(part: string): void {
    if (part === '\x1b[J') {
      this.#cells[this.#row]!.length = Math.min(this.#column, this.#cells[this.#row]!.length)
      for (const row of this.#cells.slice(this.#row + 1)) row.length = 0
    } else if (part === '\x1bD') this.#down()
    else if (part === '\x1b7') this.#saved = [this.#row, this.#column]
    else if (part === '\x1b8') [this.#row, this.#column] = this.#saved
    else if (part === '\x1b[?7l') this.#wraps = false
    else if (part === '\x1b[?7h') this.#wraps = true
    else if (part.endsWith('A') && part.startsWith('\x1b')) this.#row = Math.max(0, this.#row - Number(part.slice(2, -1)))
    else if (part.startsWith('\x1b')) return
    else if (part === '\r') this.#column = 0
    else if (part === '\n') this.#down()
    else this.#put(part)
  }

  #put(character: string): void {
    if (this.#column === this.#columns && this.#wraps) {
      this.#column = 0
      this.#down()
    }
    this.#column = Math.min(this.#column, this.#columns - 1)
    this.#cells[this.#row]![this.#column] = character
    this.#column += 1
  }

  #down(): void {
    if (this.#row < this.#rows - 1) this.#row += 1
    else this.#cells = [...this.#cells.slice(1), []]
  }
}

function open(rows: number, columns = 40) {
  const screen = new Screen(rows, columns)
  const out = (text: string) => screen.write(text)
  return { screen, display: new SketchDisplay({ write: out, raw: { out, err: out }, outRows: rows }) }
}

it('shows the sketch, and the answer that grows over it', () => {
  const { screen, display } = open(20)
  display.sketch(['keys, table'])
  display.sketch(['keys, table', 'dog, garden'])
  expect(screen.text).toBe('\nkeys, table\ndog, garden')
  display.sketch(['dog, garden'])
  display.text('The keys are on the table.')
  expect(screen.text).toBe('The keys are on the table.\ndog, garden')
  display.sketch([])
  display.text(' The dog is in the garden.')
  expect(screen.text).toBe('The keys are on the table. The dog is in\n the garden.')
})

it('keeps its place where the screen scrolls, where lines are longer than it is wide, and where they do not fit', () => {
  const { screen, display } = open(6, 12)
  const lines = Array.from({ length: 9 }, (_, at) => `line number ${at}, and more`)
  display.sketch(lines)
  expect(screen.text).toBe('\nline numbere\nline numbere\n… and 7 more')
  for (const [at] of lines.entries()) {
    display.sketch(lines.slice(at + 1))
    display.text(`${at === 0 ? '' : ' '}Text ${at}.`)
  }
  expect(screen.text.replaceAll('\n', '')).toBe(
    lines
      .map((_, at) => `Text ${at}.`)
      .join(' ')
      .slice(-screen.text.replaceAll('\n', '').length),
  )
})

it('shows no control characters of a sketch', () => {
  const { screen, display } = open(5)
  display.sketch(['a\x1b[2Jb'])
  expect(screen.text).toBe('\na\\u001b[2Jb')
})
