import { fence, isExpanded, keyWordsOf, parseLine } from '../../core/answer/sketch/line-form.ts'
import { isIntroduction } from '../../core/answer/sketch/reply.ts'
import { maxSketchLines } from '../../core/wire/protocol/expansion.ts'

interface SketchBounds {
  readonly maxLines: number
  /** A longer line is cut after a word. */
  readonly maxLineChars: number
}

const defaultBounds: SketchBounds = { maxLines: maxSketchLines, maxLineChars: 400 }

/** A model that has written so many lines again writes in a loop. */
const maxRepeats = 3
/** Marks and a title before a line. */
const maxMarkChars = 160
/** A table's row, which is not cut. */
const maxRowChars = 2_000
/** A block of code, which is one line of the sketch. */
const maxBlockChars = 16_384

/** A fence around the whole sketch, which is none of the answer's. */
const wrapper = /^\s*(?:`{3,}|~{3,})\s*(?:text|plaintext|markdown|md)?\s*$/i

/**
 * Takes the lines out of a sketch while a model writes it, each with its form (`parseLine`), without introduction, reasoning, lines
 * that it writes again and those without a word. Memory is bounded for any input.
 */
export class SketchReader {
  readonly #bounds: SketchBounds
  /** Of the line that is being written. */
  #line = ''
  readonly #seen = new Set<string>()
  #count = 0
  #repeats = 0
  #isReasoning = false
  /** Whether a blank line came since the last one. */
  #isApart = false
  #isWrapped = false
  #isTooLong = false
  /** Whether a reply begins: it may announce what it brings. */
  #isFirst = true
  /** Lines of a block of code that is being written. */
  #block: string[] | undefined
  #blockChars = 0

  constructor(bounds: Partial<SketchBounds> = {}) {
    this.#bounds = { ...defaultBounds, ...bounds }
  }

  /** Whether the sketch has as many lines as allowed, or loops: what follows is dropped, so the model need not write it. */
  get isFull(): boolean {
    return this.#count >= this.#bounds.maxLines || this.#repeats > maxRepeats || this.#isTooLong
  }

  /** A block of code is longer than a sketch may have. */
  get isTooLong(): boolean {
    return this.#isTooLong
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
    const lines = this.#complete()
    const block = this.#block
    if (!block || this.isFull) return lines
    this.#block = undefined
    return [...lines, this.#take([...block, fence.exec(block[0]!)![1]!].join('\n'))]
  }

  /** The reply was cut: its last line is dropped, and another reply goes on. */
  cut(): void {
    this.#line = ''
    this.#block = undefined
    this.#isFirst = true
  }

  #append(text: string): void {
    const maxChars = this.#block ? maxBlockChars : Math.max(maxRowChars, this.#bounds.maxLineChars + maxMarkChars)
    const room = maxChars - this.#line.length
    if (room > 0) this.#line += text.slice(0, room)
  }

  #complete(): string[] {
    const line = this.#line
    this.#line = ''
    if (this.isFull) return []
    if (this.#block) return this.#completeBlock(this.#block, line)
    const raw = this.#visible(line)
    if (raw.trim() === '') {
      this.#isApart ||= this.#count > 0
      return []
    }
    if (fence.test(raw)) return this.#open(raw)
    return this.#completeLine(raw)
  }

  #completeLine(raw: string): string[] {
    const { maxLineChars } = this.#bounds
    const whole = parseLine(raw.trimEnd())
    const { kind, text } = whole
    const head = raw.slice(0, raw.length - raw.trimStart().length)
    const isWhole = kind === 'table' || text.length <= maxLineChars
    const written = isWhole ? raw.trimEnd() : `${head}${whole.mark}${whole.lead}${cut(text, maxLineChars)}`
    const line = parseLine(written)
    const words = keyWordsOf(line)
    if (kind === 'table' || kind === 'rule') return kind === 'rule' && this.#count === 0 ? [] : [this.#take(written)]
    if (!/[\p{L}\p{N}]/u.test(words)) return []
    if (this.#isFirst && isIntroduction(words) && !announcesAnswer(words)) return []
    const key = isExpanded(line) ? words : written
    if (this.#seen.has(key)) {
      this.#repeats++
      return []
    }
    this.#seen.add(key)
    return [this.#take(written)]
  }

  #open(raw: string): string[] {
    const isWrapper = (this.#count === 0 || this.#isWrapped) && wrapper.test(raw)
    if (isWrapper) this.#isWrapped = !this.#isWrapped
    else {
      this.#block = [raw]
      this.#blockChars = raw.length
    }
    return []
  }

  #completeBlock(block: string[], line: string): string[] {
    block.push(line)
    this.#blockChars += line.length + 1
    const mark = fence.exec(block[0]!)![1]!
    const isEnd = line.trim().startsWith(mark) && line.trim().replaceAll(mark[0]!, '') === ''
    if (isEnd) this.#block = undefined
    else this.#isTooLong = this.#blockChars > maxBlockChars
    return isEnd ? [this.#take(block.join('\n'))] : []
  }

  #take(written: string): string {
    const isApart = this.#isApart
    this.#isApart = false
    this.#isFirst = false
    this.#count++
    return isApart ? `\n${written}` : written
  }

  /** The line without reasoning, which may span lines. */
  #visible(line: string): string {
    const end = line.indexOf('</think>')
    if (this.#isReasoning && end < 0) return ''
    const rest = this.#isReasoning ? line.slice(end + '</think>'.length) : line
    const begin = rest.indexOf('<think>')
    this.#isReasoning = begin >= 0 && !rest.includes('</think>', begin)
    return rest.replace(/<think>.*?(?:<\/think>|$)/g, '')
  }
}

/** "Here are five tips:" is part of the answer, "Here is the sketch:" is not. */
const announcesAnswer = (line: string): boolean =>
  /^here(?:['’]s| is| are)\b/i.test(line) && !/\b(?:sketch|outline|draft|key ?words|answer)\b/i.test(line)

export function sketchLines(text: string, bounds?: Partial<SketchBounds>): string[] {
  const reader = new SketchReader(bounds)
  return [...reader.push(text), ...reader.end()]
}

function cut(line: string, maxChars: number): string {
  const head = line.slice(0, maxChars)
  const lastSpace = head.search(/\s\S*$/)
  // Half a surrogate pair is no text.
  return lastSpace > 0 ? head.slice(0, lastSpace).trimEnd() : head.replace(/[\ud800-\udbff]$/, '')
}
