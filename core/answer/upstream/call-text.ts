import { hermes } from '../../model/text/tool-format.ts'

interface CallDelta {
  readonly index: number
  readonly function: { readonly name?: string | null | undefined; readonly arguments?: string | null | undefined }
}

/** Writes the calls of another server's answer as text, in the form that readers of such text expect. */
export class CallText {
  #open: number | undefined
  #hasArguments = false

  /** @param isLast the answer ends */
  push(deltas: readonly CallDelta[], isLast: boolean): string {
    let text = ''
    for (const { index, function: called } of deltas) {
      if (index !== this.#open) {
        if (!called.name) continue
        text += this.#close() + hermes.begin(called.name)
        this.#open = index
        this.#hasArguments = false
      }
      text += called.arguments ?? ''
      this.#hasArguments ||= Boolean(called.arguments)
    }
    return isLast ? text + this.#close() : text
  }

  #close(): string {
    if (this.#open === undefined) return ''
    this.#open = undefined
    return `${this.#hasArguments ? '' : '{}'}${hermes.end}`
  }
}
