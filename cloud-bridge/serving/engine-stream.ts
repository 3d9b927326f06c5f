import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Sequence } from '../../core/model/engine/contract.ts'
import type { ServedStream } from '../../core/policy/serving/served-stream.ts'
import type { FailureReason, FoundRows, ServingInput } from '../../core/policy/serving/serving-events.ts'
import { type StreamView, streamView } from '../../core/policy/serving/stream-view.ts'
import type { PageKeys } from './page-keys.ts'
import type { ItemResult, ModelItem } from './served-model.ts'
import { StreamKv, type StreamKvHost } from './stream-kv.ts'

/** What every stream needs from its Serving. */
export interface EngineHost extends StreamKvHost {
  readonly clock: Clock
  /** Tells the serving machine what has happened, and does what it asks for. */
  feed(input: ServingInput): void
  /** The stream as the serving machine has it. */
  served(id: number): Readonly<ServedStream> | undefined
  /** Why the owner gets no more KV memory, for a message. */
  shortageOf(owner: string): string
  remove(stream: EngineStream): void
}

/** What the step loop sees of a stream, whatever its rows are. */
export abstract class EngineStream {
  readonly id: number
  readonly kv: StreamKv
  readonly owner: string
  /** Whether its next rows wait as soon as a step has ended, so that no other code must run before the next plan. */
  abstract readonly continuesAtOnce: boolean
  protected closing: Promise<void> | undefined
  readonly #host: EngineHost
  #resolveClosing = () => {}
  /** Resolves when the running step has ended; undefined while no step holds the stream. */
  #step: Promise<void> | undefined
  #endStep = () => {}
  /** Holds the rows that the stream is about to begin with. */
  #source: Sequence | undefined

  constructor(id: number, owner: string, sequence: Sequence, host: EngineHost, keys?: PageKeys) {
    this.id = id
    this.owner = owner
    this.kv = new StreamKv(sequence, host, keys)
    this.#host = host
  }

  protected get sequence(): Sequence {
    return this.kv.sequence
  }

  get isInStep(): boolean {
    return this.#step !== undefined
  }

  /** Whether its rows are in the memory, and no step or transfer uses them. */
  protected get isResident(): boolean {
    return !this.isInStep && this.#host.served(this.id)?.place === 'resident'
  }

  /** What operators see of it; undefined: it closes. */
  view(): StreamView | undefined {
    const served = this.#host.served(this.id)
    return served && !served.isClosing ? streamView(served, this.#host.clock.nowMs()) : undefined
  }

  /** The first `count` waiting rows. */
  protected abstract piece(count: number): ModelItem
  /** The step has computed its rows. */
  abstract addResult(result: ItemResult, count: number, computeMs: number): void
  /** Hands out what the last step gave, apart from `addResult`, so that the next step can begin before. */
  deliver(): void {}
  /** The rows that wait fail; the stream holds the rows that it held before its last step. */
  abstract fail(error: unknown): void
  /** Whether its pages in the slow tier are of use to a later stream. */
  get leavesPages(): boolean {
    return false
  }
  /** Releases the KV, or leaves it to a later stream. @param holdsRows whether it is in the memory */
  protected abstract leaveKv(holdsRows: boolean): void

  /** @returns the first `count` waiting rows, for a step that begins now */
  startStep(count: number): ModelItem {
    if (this.#step) throw new Error('a step was begun with a stream that is in another one')
    this.#step = new Promise((resolve) => {
      this.#endStep = resolve
    })
    return this.piece(count)
  }

  /** The step no longer holds the stream. */
  finishStep(): void {
    this.#step = undefined
    this.#endStep()
  }

  /** Begins with rows of another sequence, or with saved ones, if there is memory. */
  beginWith(source: Sequence | undefined, found: FoundRows): void {
    this.#source = source
    this.#host.feed({ kind: 'found', stream: this.id, ...found })
    this.#source = undefined
  }

  /** The memory for the rows that were found is there. */
  copyFound(rows: number): void {
    if (!this.#source) throw new Error('rows are copied that were not found')
    this.sequence.copyPrefix(this.#source, rows)
  }

  protected async stepEnded(): Promise<void> {
    while (this.#step) await this.#step
  }

  /** Cancels what waits; the KV is left after the running step. @param keep leading rows that are left to a later stream */
  protected beginClosing(keep?: number): Promise<void> {
    this.closing = new Promise((resolve) => {
      this.#resolveClosing = resolve
    })
    if (!this.#step) this.fail(streamClosed())
    this.#host.feed({ kind: 'closing', stream: this.id, keep, leaves: this.leavesPages || undefined })
    return this.closing
  }

  /** No step and no transfer holds the stream any more. */
  onClosed(holdsRows: boolean): void {
    this.#host.remove(this)
    this.leaveKv(holdsRows)
    this.#resolveClosing()
  }

  /** The rows that it was to begin with are not there: it computes them. */
  onNotCopied(err: unknown): void {
    this.#host.warn({ err }, 'prefix not copied')
  }

  /** @param length of the rows that the stream would have had */
  errorOf(why: FailureReason, length: number): unknown {
    switch (why) {
      case 'memory':
        return new BrimError('OUT_OF_MEMORY', `no KV memory for ${length} positions: ${this.#host.shortageOf(this.owner)}`)
      case 'lost':
        return new BrimError('SESSION_UNKNOWN', "the stream's KV was lost while it was preempted: the slow tier failed")
      case 'transfer':
        return this.kv.failure
      case 'stopped':
        return new BrimError('CANCELED', 'the bridge is shutting down')
    }
  }
}

export const streamClosed = () => new BrimError('CANCELED', 'the stream was closed while its rows waited')
