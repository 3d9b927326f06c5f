import { BrimError } from '../../kit/base/errors.ts'

interface StopStep {
  /** Text that can no longer be part of a stop string. */
  readonly text: string
  /** A stop string is complete. It and the text after it are not part of the answer. */
  readonly stopped: boolean
}

/**
 * Finds stop strings in text that arrives in pieces, also across pieces. Text that may be the start of a stop string is
 * held back. The answer ends at the stop string that is complete first, or at the longest of several that are complete at
 * the same character, so the result does not depend on the pieces.
 */
export class StopStrings {
  readonly #stops: readonly string[]
  #held = ''
  #stopped = false

  /** @throws BrimError REQUEST_INVALID for an empty stop string */
  constructor(stops: readonly string[]) {
    if (stops.includes(''))
      throw new BrimError('REQUEST_INVALID', 'a stop string is empty', { hint: 'omit it, or give at least one character' })
    this.#stops = stops
  }

  push(piece: string): StopStep {
    if (this.#stopped) return { text: '', stopped: true }
    const text = this.#held + piece
    const start = this.#firstMatch(text)
    if (start !== undefined) {
      this.#stopped = true
      this.#held = ''
      return { text: text.slice(0, start), stopped: true }
    }
    const undecided = this.#undecidedSuffix(text)
    this.#held = text.slice(text.length - undecided)
    return { text: text.slice(0, text.length - undecided), stopped: false }
  }

  /** Ends the text and returns what was held back. */
  end(): string {
    const text = this.#held
    this.#held = ''
    return text
  }

  /** Start of the match that ends first. */
  #firstMatch(text: string): number | undefined {
    let best: { start: number; end: number } | undefined
    for (const stop of this.#stops) {
      const start = text.indexOf(stop)
      const end = start + stop.length
      if (start >= 0 && (!best || end < best.end || (end === best.end && start < best.start))) best = { start, end }
    }
    return best?.start
  }

  /** Length of the longest suffix of the text that is a prefix of a stop string. */
  #undecidedSuffix(text: string): number {
    const longest = this.#stops.reduce((length, stop) => Math.max(length, stop.length - 1), 0)
    for (let length = Math.min(longest, text.length); length > 0; length--) {
      const suffix = text.slice(text.length - length)
      if (this.#stops.some((stop) => stop.startsWith(suffix))) return length
    }
    return 0
  }
}
