import { BrimError } from '../../core/base/errors.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import { sentencesOf } from '../../core/protocol/expansion.ts'
import type { SketchInput } from '../../core/protocol/jobs.ts'
import type { Expanded, ExpansionRequest } from './expander.ts'

/** One answer's sketch: which candidates of which sentences are missing, and those that wait for the answer to take them. */
export class PendingExpansion {
  readonly id: string
  readonly client: string
  /** The clock's time, as `deadlineMs`. */
  readonly sinceMs: number
  readonly deadlineMs: number
  /** Devices that have been given the sketch. */
  readonly triedDevices = new Set<string>()
  /** Number of jobs that it has been part of. */
  attempts = 0
  /** A device rejected a batch with it: the other sketches of the batch may be fine. */
  isSuspect = false
  readonly #input: SketchInput
  /** The missing candidates of each sentence. */
  readonly #missing: Map<number, Set<number>>
  readonly #arrived: Expanded[] = []
  #failure: BrimError | undefined
  #wake = () => {}

  constructor({ id, client, input, deadlineMs }: ExpansionRequest, nowMs: number) {
    this.id = id
    this.client = clientOf(client)
    this.sinceMs = nowMs
    this.deadlineMs = nowMs + deadlineMs
    this.#input = input
    const candidates = Array.from({ length: input.candidates }, (_, at) => at)
    this.#missing = new Map(sentencesOf(input).map((sentence) => [sentence, new Set(candidates)]))
  }

  get isComplete(): boolean {
    return this.#missing.size === 0
  }

  /** Whether nothing is expanded for it any more. */
  get hasEnded(): boolean {
    return this.isComplete || this.#failure !== undefined
  }

  /** What a device is still to expand. */
  get input(): SketchInput {
    return { ...this.#input, sentences: [...this.#missing.keys()] }
  }

  /** Predicted length of what is missing, in tokens of the LLM. */
  get expectedTokens(): number {
    const { sketch, expectedTokens } = this.#input
    return Math.max(1, Math.round((expectedTokens * this.#missing.size) / sketch.length))
  }

  /** Hands a candidate to the answer if it is missing. */
  take(expanded: Expanded): void {
    const candidates = this.#missing.get(expanded.sentence)
    if (!candidates?.delete(expanded.candidate) || this.#failure) return
    if (candidates.size === 0) this.#missing.delete(expanded.sentence)
    this.#arrived.push(expanded)
    this.#wake()
  }

  /** What has arrived stays valid. */
  fail(failure: BrimError): void {
    if (this.hasEnded) return
    this.#failure = failure
    this.#wake()
  }

  /** Every candidate as it arrives. @throws BrimError of `fail`; CANCELED */
  async *arrivals(signal: AbortSignal): AsyncGenerator<Expanded, void> {
    const onAbort = () => this.fail(new BrimError('CANCELED', 'the answer was canceled'))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      for (;;) {
        const next = this.#arrived.shift()
        if (next) yield next
        else if (this.#failure) throw this.#failure
        else if (this.isComplete) return
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
      onAbort()
    }
  }
}
