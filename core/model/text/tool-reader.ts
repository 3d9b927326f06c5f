import type { ToolFormat } from './tool-format.ts'

export interface CallPiece {
  /** Of the call, from 0. */
  readonly index: number
  /** With the first piece. */
  readonly name?: string
  /** JSON, to be joined. */
  readonly arguments: string
}

export interface ReadText {
  /** Outside of calls. */
  readonly text: string
  readonly calls: readonly CallPiece[]
}

type State =
  /** Text is held back as far as a call may begin with it. */
  | { readonly at: 'text' }
  | { readonly at: 'arguments'; depth: number; inString: boolean; isEscaped: boolean }
  /** Held back until they are complete. */
  | { readonly at: 'parameters' }
  | { readonly at: 'end' }

/** Separates calls from text, as both come in. */
export class ToolReader {
  readonly #format: ToolFormat
  readonly #names: readonly string[]
  /** Not read yet. */
  #rest = ''
  #state: State = { at: 'text' }
  #calls = 0

  /** @param names of functions: calls of others are text */
  constructor(format: ToolFormat, names: readonly string[]) {
    this.#format = format
    this.#names = names
  }

  get calls(): number {
    return this.#calls
  }

  /** @param isLast nothing follows */
  push(text: string, isLast = false): ReadText {
    this.#rest += text
    const calls: CallPiece[] = []
    let plain = ''
    for (let before = -1; before !== this.#rest.length; ) {
      before = this.#rest.length
      const state = this.#state
      if (state.at === 'text') plain += this.#readText(calls, isLast)
      else if (state.at === 'arguments') this.#readArguments(state, calls)
      else if (state.at === 'parameters') this.#readParameters(calls, isLast)
      else this.#readEnd()
      if (state !== this.#state) before = -1
    }
    return { text: plain, calls }
  }

  #readText(calls: CallPiece[], isLast: boolean): string {
    const { trigger } = this.#format
    const at = this.#rest.indexOf(trigger)
    if (at < 0) return this.#take(isLast ? this.#rest.length : this.#rest.length - heldBack(this.#rest, trigger, this.#calls > 0))
    const text = this.#takeText(at)
    const begins = this.#names.map((name) => [name, this.#format.begin(name)] as const)
    const begun = begins.find(([, begin]) => this.#rest.startsWith(begin))
    if (begun) {
      this.#take(begun[1].length)
      const index = this.#calls++
      calls.push({ index, name: begun[0], arguments: '' })
      this.#state =
        this.#format.arguments === 'json'
          ? { at: 'arguments', depth: 0, inString: false, isEscaped: false }
          : { at: 'parameters' }
      return text
    }
    const mayBegin = !isLast && begins.some(([, begin]) => begin.startsWith(this.#rest))
    return mayBegin ? text : text + this.#take(trigger.length)
  }

  /** White space between calls is none of the text. */
  #takeText(length: number): string {
    const text = this.#take(length)
    return this.#calls > 0 && text.trim() === '' ? '' : text
  }

  #readArguments(state: Extract<State, { at: 'arguments' }>, calls: CallPiece[]): void {
    let at = 0
    while (at < this.#rest.length) {
      const character = this.#rest[at++]!
      if (state.isEscaped) state.isEscaped = false
      else if (state.inString) {
        if (character === '\\') state.isEscaped = true
        else if (character === '"') state.inString = false
      } else if (character === '"') state.inString = true
      else if (character === '{' || character === '[') state.depth += 1
      else if ((character === '}' || character === ']') && --state.depth <= 0) {
        this.#state = { at: 'end' }
        break
      }
    }
    if (at > 0) calls.push({ index: this.#calls - 1, arguments: this.#take(at) })
  }

  #readParameters(calls: CallPiece[], isLast: boolean): void {
    const { end } = this.#format
    const length = this.#rest.indexOf(end)
    if (length < 0 && !isLast) return
    const parameters = this.#take(length < 0 ? this.#rest.length : length)
    calls.push({ index: this.#calls - 1, arguments: jsonOf(parameters) })
    this.#state = { at: 'end' }
  }

  #readEnd(): void {
    const { end } = this.#format
    if (end.startsWith(this.#rest) && this.#rest.length < end.length) return
    if (this.#rest.startsWith(end)) this.#take(end.length)
    this.#state = { at: 'text' }
  }

  #take(length: number): string {
    const taken = this.#rest.slice(0, length)
    this.#rest = this.#rest.slice(length)
    return taken
  }
}

/** How much of the end of a text may begin a call; after a call, white space too. */
function heldBack(text: string, trigger: string, afterCall: boolean): number {
  let held = Math.min(text.length, trigger.length - 1)
  while (!text.endsWith(trigger.slice(0, held))) held--
  return afterCall && text.slice(0, text.length - held).trim() === '' ? text.length : held
}

/** A value that is JSON is taken as such; every other one is a text. */
function jsonOf(parameters: string): string {
  const values: Record<string, unknown> = {}
  for (const [, name, value] of parameters.matchAll(/<parameter=([^>]+)>\n?([\s\S]*?)\n?<\/parameter>/g))
    values[name!] = parsed(value!)
  return JSON.stringify(values)
}

function parsed(value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}
