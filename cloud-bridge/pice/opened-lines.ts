import { openingLines, saidLines } from '../../core/answer/sketch/opening.ts'
import { coverage, leastCoverage } from '../../core/policy/pice/coverage.ts'

/** The lines of an answer whose beginning the client has: those of the opening, then what the sketch adds to it. Mutable. */
export class OpenedLines {
  readonly text: string
  /** Of the opening. */
  readonly lines: readonly string[]
  /** First lines of the sketch that the opening says. */
  #said: number | undefined

  /** @param text of the opening; '': the client has nothing */
  constructor(text: string) {
    this.text = text
    this.lines = openingLines(text)
    this.#said = text === '' ? 0 : undefined
  }

  get count(): number {
    return this.lines.length
  }

  /** @param lines complete ones of the sketch. @returns none as long as the opening may say the next one, too */
  with(lines: readonly string[], isComplete: boolean): readonly string[] {
    if (this.#said === undefined) {
      const said = saidLines(this.text, lines, (keyWords, text) => coverage(keyWords, text) >= leastCoverage)
      if (said === lines.length && !isComplete) return []
      this.#said = said
    }
    return [...this.lines, ...lines.slice(this.#said)]
  }

  /** Whether these lines still begin with those of the opening. */
  begins(lines: readonly string[]): boolean {
    return this.lines.every((line, at) => line === lines[at])
  }
}
