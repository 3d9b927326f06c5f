import { isFence, isIntroduction, withoutMarks } from '../../core/answer/sketch/reply.ts'
import { maxSketchLines } from '../../core/wire/protocol/expansion.ts'

interface SketchBounds {
  readonly maxLines: number
  /** A longer line is cut after a word. */
  readonly maxLineChars: number
}

const defaultBounds: SketchBounds = { maxLines: maxSketchLines, maxLineChars: 400 }

/** A model that has written so many lines again writes in a loop. */
const maxRepeats = 3

/**
 * Takes the lines out of a sketch while a model writes it, without bullets, numbers, fences, empty lines, introduction, reasoning and
 * lines that it writes again. Memory is bounded for any input.
 */
export class SketchReader {
  readonly #bounds: SketchBounds
  /** Of the line that is being written, at most `maxLineChars` and what marks may take. */
  #line = ''
  readonly #seen = new Set<string>()
  #repeats = 0
  #isReasoning = false

  constructor(bounds: Partial<SketchBounds> = {}) {
    this.#bounds = { ...defaultBounds, ...bounds }
  }

  /** Whether the sketch has as many lines as allowed, or loops: what follows is dropped, so the model need not write it. */
  get isFull(): boolean {
    return this.#seen.size >= this.#bounds.maxLines || this.#repeats > maxRepeats
  }

  /** @returns lines that are complete now */
  push(text: string): string[] {
    const [first = '', ...others] = text.split(/\r\n|[\r\n]/)
    const lines: string[] = []
    this.#append(first)
    for (const other of others) {
      lines.push(...this.#complete())
      this.#append(other)
    }
    return lines
  }

  /** @returns the last line, which no line break has completed */
  end(): string[] {
    return this.#complete()
  }

  #append(text: string): void {
    const room = this.#bounds.maxLineChars + 64 - this.#line.length
    if (room > 0) this.#line += text.slice(0, room)
  }

  #complete(): string[] {
    const raw = this.#visible()
    this.#line = ''
    if (this.isFull || isFence(raw)) return []
    const repeats = this.#repeats
    const line = cut(withoutMarks(raw), this.#bounds.maxLineChars)
    if (line === '' || (this.#seen.size === 0 && isIntroduction(line))) return []
    if (this.#seen.has(line)) this.#repeats++
    else this.#seen.add(line)
    return this.#repeats > repeats ? [] : [line]
  }

  /** The line without reasoning, which may span lines. */
  #visible(): string {
    const line = this.#line
    const end = line.indexOf('</think>')
    if (this.#isReasoning && end < 0) return ''
    const rest = this.#isReasoning ? line.slice(end + '</think>'.length) : line
    const begin = rest.indexOf('<think>')
    this.#isReasoning = begin >= 0 && !rest.includes('</think>', begin)
    return rest.replace(/<think>.*?(?:<\/think>|$)/g, '')
  }
}

/** The lines of a whole sketch. */
export function sketchLines(text: string, bounds?: Partial<SketchBounds>): string[] {
  const reader = new SketchReader(bounds)
  return [...reader.push(text), ...reader.end()]
}

function cut(line: string, maxChars: number): string {
  if (line.length <= maxChars) return line
  const head = line.slice(0, maxChars)
  const lastSpace = head.search(/\s\S*$/)
  // Half a surrogate pair is no text.
  return lastSpace > 0 ? head.slice(0, lastSpace).trimEnd() : head.replace(/[\ud800-\udbff]$/, '')
}
