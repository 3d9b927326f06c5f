/** How a model marks what it thinks before it answers. */
export interface ReasoningMarks {
  readonly open: string
  readonly close: string
  /** The chat template writes `open` itself. */
  readonly isOpened: boolean
}

const marks = [
  { open: '<think>', close: '</think>' },
  { open: '[THINK]', close: '[/THINK]' },
] as const

/** @param template its source @param promptEnd of a prompt that it has rendered. @returns undefined: it knows of no reasoning */
export function reasoningOf(template: string, promptEnd: string): ReasoningMarks | undefined {
  const own = marks.find(({ close }) => template.includes(close))
  return own && { ...own, isOpened: promptEnd.trimEnd().endsWith(own.open) }
}

interface Split {
  readonly reasoning: string
  readonly text: string
}

/** Separates reasoning at the beginning of an answer from the answer, as both come in. The marks belong to neither. */
export class ReasoningReader {
  readonly #marks: ReasoningMarks
  #state: 'before' | 'inside' | 'after' | 'text'
  #rest = ''

  constructor(own: ReasoningMarks) {
    this.#marks = own
    this.#state = own.isOpened ? 'inside' : 'before'
  }

  /** @param isLast nothing follows */
  push(text: string, isLast = false): Split {
    this.#rest += text
    let reasoning = ''
    if (this.#state === 'before') this.#readOpen(isLast)
    if (this.#state === 'inside') reasoning = this.#readReasoning(isLast)
    if (this.#state === 'after') {
      this.#rest = this.#rest.trimStart()
      if (this.#rest !== '') this.#state = 'text'
    }
    return { reasoning, text: this.#state === 'text' ? this.#take(this.#rest.length) : '' }
  }

  #readOpen(isLast: boolean): void {
    const { open } = this.#marks
    const begun = this.#rest.trimStart()
    if (begun.startsWith(open)) {
      this.#rest = begun.slice(open.length)
      this.#state = 'inside'
    } else if (isLast || !open.startsWith(begun)) this.#state = 'text'
  }

  #readReasoning(isLast: boolean): string {
    const { close } = this.#marks
    const at = this.#rest.indexOf(close)
    if (at >= 0) {
      const reasoning = this.#take(at)
      this.#take(close.length)
      this.#state = 'after'
      return reasoning
    }
    let held = 0
    for (let length = close.length - 1; length > 0 && held === 0 && !isLast; length--)
      if (this.#rest.endsWith(close.slice(0, length))) held = length
    return this.#take(this.#rest.length - held)
  }

  #take(length: number): string {
    const taken = this.#rest.slice(0, length)
    this.#rest = this.#rest.slice(length)
    return taken
  }
}
