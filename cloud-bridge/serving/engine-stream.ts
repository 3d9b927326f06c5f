import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Sequence } from '../../core/engine/contract.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import type { Phase, Resumption, StreamState } from '../../core/policy/serving/policy.ts'
import type { KvMemory } from './kv-memory.ts'
import type { KvTiers } from './kv-tiers.ts'
import type { ItemResult, ModelItem } from './served-model.ts'
import { type KvOwner, StreamKv } from './stream-kv.ts'

/** What every stream needs from its Serving. */
export interface EngineHost {
  readonly kv: KvMemory
  readonly tiers: KvTiers
  readonly clock: Clock
  /** New rows of the stream wait for a step, behind those of the other streams. */
  enqueue(stream: EngineStream): void
  /** The rows of the stream no longer wait for a step. */
  withdraw(stream: EngineStream): void
  /** The stream has closed, and takes part in no step any more. */
  remove(stream: EngineStream): void
}

/** Rows that wait to be computed. */
export interface WaitingRows {
  readonly waiting: number
  readonly phase: Phase
  readonly arrivedMs: number
  /** Steps that began without them, though they could have run. */
  readonly stepsSkipped: number
}

/** A stream, and how many of its waiting rows a step computes. */
export interface StreamRows {
  readonly stream: EngineStream
  readonly rows: number
}

/** What the step loop sees of a stream, whatever its rows are: its KV, its place in steps, preemption. */
export abstract class EngineStream implements KvOwner {
  readonly id: number
  readonly kv: StreamKv
  readonly owner: string
  protected closing: Promise<void> | undefined
  readonly #host: EngineHost
  readonly #client: string
  /** Resolves when the running step has ended; undefined while no step holds the stream. */
  #step: Promise<void> | undefined
  #endStep = () => {}

  constructor(id: number, owner: string, sequence: Sequence, residency: 'resident' | 'evicted', host: EngineHost) {
    this.id = id
    this.owner = owner
    this.#client = clientOf(owner)
    this.kv = new StreamKv(sequence, residency, this, host.tiers)
    this.#host = host
  }

  protected get sequence(): Sequence {
    return this.kv.sequence
  }

  get isInStep(): boolean {
    return this.#step !== undefined
  }

  get canRun(): boolean {
    return this.waitingRows > 0 && !this.#step && this.kv.residency === 'resident'
  }

  /** Whether the owner may have the memory that the waiting rows need. Until then the stream is no concern of the policy. */
  get isWithinShare(): boolean {
    return true
  }

  get waitingRows(): number {
    return this.pending?.waiting ?? 0
  }

  get state(): StreamState {
    const { kv: memory } = this.#host
    const { sequence, pending, kv } = this
    const { waiting: waitingRows = 0, phase = 'decode', arrivedMs = 0, stepsSkipped = 0 } = pending ?? {}
    const contextLength = sequence.length
    const isEvicted = kv.residency === 'evicted'
    const missingBytes = memory.missingFor(sequence, contextLength + waitingRows)
    return {
      id: this.id,
      client: this.#client,
      source: this.source,
      waitingRows,
      phase,
      arrivedMs,
      stepsSkipped,
      contextLength,
      kvBytes: isEvicted ? missingBytes : memory.chargeOf(sequence),
      growthBytes: isEvicted ? 0 : missingBytes,
      fullBytes:
        memory.missingFor(sequence, contextLength + waitingRows + this.followingRows) +
        (isEvicted ? 0 : memory.chargeOf(sequence)),
      residency: this.#step ? 'in flight' : kv.residency,
      resumptions: kv.resumptions,
      writtenRows: kv.savedRows,
      reader: this.reader,
    }
  }

  /** Undefined where none wait. */
  abstract readonly pending: WaitingRows | undefined
  /** Rows that may follow the waiting ones, as far as that is known. */
  protected abstract readonly followingRows: number
  abstract readonly canRecompute: boolean
  protected abstract readonly source: StreamState['source']
  protected abstract readonly reader: StreamState['reader']
  /** Whether it can be preempted for a stream of rows. @param heedsReaders as ServingPolicy */
  abstract makesWayFor(stream: EngineStream, heedsReaders: boolean): boolean
  /** The first `count` waiting rows. */
  protected abstract piece(count: number): ModelItem
  /** Whether its next rows wait as soon as a step has ended, so that no other code must run before the next plan. */
  abstract readonly continuesAtOnce: boolean
  /** The step has computed its rows. */
  abstract addResult(result: ItemResult, count: number, computeMs: number): void
  /** Hands out what the last step gave, apart from `addResult`, so that the next step can begin before. */
  deliver(): void {}
  /** The rows that wait fail; the stream holds the rows that it held before its last step. */
  abstract fail(error: unknown): void
  /** As `fail`; nothing waits for a step any more. */
  failWaiting(error: unknown): void {
    this.fail(error)
    this.#host.withdraw(this)
  }

  /** Other streams' steps have begun without this one. */
  abstract skipStep(): void

  get drainedMs(): number {
    return this.reader?.drainedMs ?? Number.NEGATIVE_INFINITY
  }

  /** Begins to move the KV out of the fast tier, unless a step uses it. */
  preempt(): void {
    if (!this.#step && !this.closing) this.kv.evict()
  }

  /** Begins to bring the KV back. */
  resume(_: Resumption): void {
    if (!this.closing) this.kv.load()
  }

  /** Whether one of these is about to compute rows that this stream can copy afterwards instead of computing them too. */
  awaitsRowsOf(_: readonly StreamRows[]): boolean {
    return false
  }

  /** Called before each step with the stream, while no stream of that step has begun it. */
  prepare(): void {}

  /** Charges what the stream needs with its waiting rows; false where the memory is exhausted. */
  protected charge(): boolean {
    return this.#host.kv.grow(this.sequence, this.sequence.length + this.waitingRows)
  }

  /**
   * Charges what the waiting rows need. Without memory for them, as where the owner's share is exhausted, the stream is
   * preempted, unless an eviction is about to free some.
   * @returns whether the rows can run
   */
  reserve(): boolean {
    if (this.charge()) return true
    if (!this.#host.tiers.evictionProgress) this.preempt()
    return false
  }

  /** @returns the first `count` waiting rows, for a step that begins now */
  startStep(count: number): ModelItem {
    if (!this.canRun) throw new Error('a step was begun with a stream that cannot run')
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

  /** Resolves when no step holds the stream. */
  protected async stepEnded(): Promise<void> {
    while (this.#step) await this.#step
  }

  /** Cancels what waits, lets a running step finish, and leaves the step loop. */
  protected async stop(): Promise<void> {
    if (!this.#step) this.fail(canceled())
    await this.stepEnded()
    this.#host.remove(this)
  }

  outOfMemory(length: number): BrimError {
    return new BrimError('OUT_OF_MEMORY', `no KV memory for ${length} positions: ${this.#host.kv.shortageOf(this.owner)}`)
  }
}

export const canceled = () => new BrimError('CANCELED', 'the stream was closed while its rows waited')
