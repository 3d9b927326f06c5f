import { ArrivalQueue } from '../../core/kit/base/arrival-queue.ts'
import type { Expanded, Expander, ExpansionRequest } from './expander.ts'

/** The expansions of one answer: of the first lines of its sketch while the LLM writes the others, then of all that are left. */
export class Expansions {
  readonly #expander: Pick<Expander, 'expand'>
  readonly #signal: AbortSignal
  readonly #stop = new AbortController()
  readonly #arrivals = new ArrivalQueue<Expanded>()
  /** All that has arrived. */
  readonly arrived: Expanded[] = []
  /** Sentences that were asked for, and not given up. */
  readonly #asked = new Set<number>()
  #requests = 0
  #running = 0
  #isSealed = false
  #failure: { readonly error: unknown } | undefined

  constructor(expander: Pick<Expander, 'expand'>, signal: AbortSignal) {
    this.#expander = expander
    this.#signal = AbortSignal.any([signal, this.#stop.signal])
  }

  /** How many requests were made. */
  get requests(): number {
    return this.#requests
  }

  /** Whether devices have written the sentence, or may yet. */
  has(sentence: number): boolean {
    return this.#asked.has(sentence)
  }

  /** Devices begin with these sentences. What fails before the last request may be asked for again. */
  begin(request: ExpansionRequest): void {
    this.#requests += 1
    this.#running += 1
    void this.#pump(request)
  }

  /** All candidates as they arrive, those of earlier requests first. @throws as `Expander.expand`, once nothing else will come */
  read(): AsyncGenerator<Expanded, void> {
    this.#isSealed = true
    this.#settle()
    return this.#arrivals.read(this.#signal)
  }

  /** Devices stop. */
  close(): void {
    this.#stop.abort()
  }

  async #pump(request: ExpansionRequest): Promise<void> {
    const left = new Set(request.input.sentences)
    for (const sentence of left) this.#asked.add(sentence)
    try {
      for await (const expanded of this.#expander.expand(request, this.#signal)) {
        left.delete(expanded.sentence)
        this.arrived.push(expanded)
        this.#arrivals.push(expanded)
      }
    } catch (error) {
      if (this.#isSealed) this.#failure ??= { error }
      for (const sentence of left) this.#asked.delete(sentence)
    }
    this.#running -= 1
    this.#settle()
  }

  #settle(): void {
    if (!this.#isSealed || this.#running > 0) return
    if (this.#failure) this.#arrivals.fail(this.#failure.error)
    else this.#arrivals.done()
  }
}
