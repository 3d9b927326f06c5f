import { BrimError } from './errors.ts'

/** What arrives for one reader, in its order. */
export class ArrivalQueue<Item> {
  readonly #arrived: Item[] = []
  #failure: { readonly error: unknown } | undefined
  #isDone = false
  #wake = () => {}

  push(item: Item): void {
    this.#arrived.push(item)
    this.#wake()
  }

  /** No more will come. */
  done(): void {
    this.#isDone = true
    this.#wake()
  }

  /** What has arrived stays valid. */
  fail(error: unknown): void {
    this.#failure ??= { error }
    this.#wake()
  }

  /** Waits for the next item. @returns undefined: no more will come. @throws the error of the first `fail` */
  async next(): Promise<Item | undefined> {
    for (;;) {
      const next = this.#arrived.shift()
      if (next !== undefined || this.#isDone) return next
      if (this.#failure) throw this.#failure.error
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Every item as it arrives. @throws as `next`; BrimError CANCELED */
  async *read(signal: AbortSignal): AsyncGenerator<Item, void> {
    const onAbort = () => this.fail(new BrimError('CANCELED', 'the answer was canceled'))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      for (let next = await this.next(); next !== undefined; next = await this.next()) yield next
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}
