import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Phase, ServingPlan, ServingPolicy, ServingState } from '../../core/policy/serving/policy.ts'
import { StepSpeeds } from '../../core/policy/serving/step-speeds.ts'
import type { EngineStream, StreamRows } from './engine-stream.ts'
import type { KvMemory } from './kv-memory.ts'
import type { KvTiers } from './kv-tiers.ts'
import type { ItemResult, ModelItem, ServedModel } from './served-model.ts'
import { type EndedStep, ServingMetrics } from './serving-metrics.ts'

export interface StepLimits {
  /** Rows of one step. */
  readonly rows: number
  /** Streams of one step. */
  readonly streams: number
  /** Steps under way at once: as many as the middle has stages. */
  readonly pipeline: number
}

export interface StepLoopOptions {
  readonly model: ServedModel
  readonly policy: ServingPolicy
  readonly kv: KvMemory
  readonly tiers: KvTiers
  readonly limits: StepLimits
  readonly clock: Clock
  readonly onStep?: ((step: EndedStep) => void) | undefined
  readonly metrics?: ServingMetrics | undefined
}

/** A stream's rows in one step. */
interface Piece extends StreamRows {
  readonly phase: Phase
  readonly arrivedMs: number
  readonly item: ModelItem
}

/**
 * Carries out the policy's plans: packs rows of many streams into steps, up to `pipeline` of them under way at once, never
 * two with the same stream.
 */
export class StepLoop {
  readonly metrics: ServingMetrics
  readonly #options: StepLoopOptions
  readonly #streams = new Map<number, EngineStream>()
  /** Streams whose rows wait, in the order in which the rows arrived. */
  readonly #waiting = new Set<EngineStream>()
  readonly #underWay = new Set<Promise<void>>()
  #planning: Promise<void> | undefined
  #alarm = new AbortController()
  #alarmAtMs: number | undefined
  readonly #speeds = new StepSpeeds()
  #lastDecodeMs: number | undefined
  #isClosed = false

  constructor(options: StepLoopOptions) {
    this.#options = options
    this.metrics = options.metrics ?? new ServingMetrics(options.limits.streams)
  }

  add(stream: EngineStream): void {
    this.#streams.set(stream.id, stream)
  }

  get(id: number): EngineStream | undefined {
    return this.#streams.get(id)
  }

  enqueue(stream: EngineStream): void {
    if (this.#isClosed) {
      stream.fail(shuttingDown())
      return
    }
    this.#waiting.delete(stream)
    this.#waiting.add(stream)
    this.planSoon()
  }

  /** The rows of the stream no longer wait. */
  withdraw(stream: EngineStream): void {
    this.#waiting.delete(stream)
    this.planSoon()
  }

  remove(stream: EngineStream): void {
    this.#streams.delete(stream.id)
    this.#waiting.delete(stream)
    this.planSoon()
  }

  /** Memory that is free, or that the streams that make way for this one hold. */
  couldFree(stream: EngineStream): number {
    const { kv, policy } = this.#options
    const { heedsReaders = false } = policy
    const { budgetBytes, usedBytes } = kv.usage
    let bytes = budgetBytes - usedBytes + kv.cachedBytes
    for (const other of this.#streams.values()) if (other.makesWayFor(stream, heedsReaders)) bytes += other.kv.chargedBytes
    return bytes
  }

  /** Rejects what waits; resolves when no step runs any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#alarm.abort()
    this.#rejectWaiting()
    await this.#planning
    await Promise.all(this.#underWay)
    // The rest of what the last steps computed in part.
    this.#rejectWaiting()
  }

  #rejectWaiting(): void {
    for (const stream of this.#waiting) if (!stream.isInStep) stream.fail(shuttingDown())
  }

  /** Call it whenever the next plan may differ from the last one. */
  planSoon(): void {
    if (this.#canBegin) this.#planning ??= this.#beginSteps()
  }

  get #canBegin(): boolean {
    return !this.#isClosed && this.#underWay.size < this.#options.limits.pipeline
  }

  async #beginSteps(): Promise<void> {
    let hasBegun = true
    while (hasBegun && this.#canBegin) {
      // Lets the streams of the last step append their next rows.
      await nextTurn()
      if (this.#isClosed) break
      hasBegun = this.#carryOut(this.#plan())
    }
    // In the same turn as the last plan: what changes after it begins a new round.
    this.#planning = undefined
  }

  #plan(): ServingPlan {
    return this.#options.policy.plan(this.#state(), this.#options.clock.nowMs())
  }

  #state(): ServingState {
    const { kv, tiers, limits } = this.#options
    const [streams, waiting] = [this.#streams, this.#waiting]
    return {
      waiting: Array.from(waiting).flatMap((stream) => (stream.isWithinShare ? [stream.state] : [])),
      // On demand: there may be hundreds of both, and a plan is made for every step.
      get idle() {
        return [...streams.values()].filter((stream) => !waiting.has(stream)).map((stream) => stream.state)
      },
      get cached() {
        return [...kv.cached()]
      },
      memory: tiers.usage,
      leavingBytes: tiers.leavingBytes,
      slow: tiers.slow?.usage,
      speeds: { ...this.#speeds.speeds, ...tiers.speeds, stepSOf: (rows) => this.#speeds.secondsOf(rows) },
      step: limits,
      lastDecodeMs: this.#lastDecodeMs,
    }
  }

  /** @returns whether the next plan may differ: a step has begun, or a stream has been preempted beyond the plan */
  #carryOut({ evict, preempt, resume, run, lookAgainAtMs }: ServingPlan): boolean {
    for (const handle of evict) this.#options.kv.evictPrefix(handle)
    let madeWay = false
    for (const id of preempt) {
      const stream = this.#streams.get(id)
      stream?.preempt()
      madeWay ||= stream?.kv.residency === 'evicted'
    }
    for (const { stream, by } of resume) this.#streams.get(stream)?.resume(by)
    this.#setAlarm(lookAgainAtMs)
    const starting: StreamRows[] = []
    for (const { stream: id, rows } of run) {
      const stream = this.#streams.get(id)
      // A stream that was to be resumed is still evicted if another could not be preempted.
      if (stream?.canRun) {
        if (!stream.awaitsRowsOf(starting)) starting.push({ stream, rows })
      } else {
        // It waited for its place alone, which it has now: the next plan has room for other rows.
        madeWay ||= stream?.waitingRows === 0
      }
    }
    // While no step holds the rows that they may copy.
    for (const { stream } of starting) stream.prepare()
    const pieces = starting.flatMap(({ stream, rows: planned }): Piece[] => {
      if (!stream.reserve()) {
        madeWay ||= stream.kv.residency !== 'resident'
        return []
      }
      // A stream may have found some of its rows in the prefix cache.
      const { waiting, phase, arrivedMs } = stream.pending!
      const rows = Math.min(planned, waiting)
      if (phase !== 'prefill') this.#lastDecodeMs = this.#options.clock.nowMs()
      return [{ stream, rows, phase, arrivedMs, item: stream.startStep(rows) }]
    })
    if (pieces.length === 0) return madeWay
    for (const stream of this.#waiting) if (!stream.isInStep) stream.skipStep()
    const running = this.#compute(pieces).finally(() => {
      this.#underWay.delete(running)
      for (const { stream } of pieces) stream.finishStep()
      // Streams that have their next rows need no turn; their readers get the last tokens while the next step computes.
      if (this.#canBegin && !this.#planning && pieces.every(({ stream }) => stream.continuesAtOnce)) this.#carryOut(this.#plan())
      for (const { stream } of pieces) stream.deliver()
      this.planSoon()
    })
    this.#underWay.add(running)
    void this.#saveDuring(pieces)
    return true
  }

  /** Writes KV through to the slow tier while the step computes. */
  async #saveDuring(pieces: readonly Piece[]): Promise<void> {
    // The library computes on threads of its own, from this turn on.
    await nextTurn()
    const kvs = Array.from(this.#streams.values(), ({ kv }) => kv)
    await this.#options.tiers.saveDuring(this.#speeds.secondsOf(rowsOf(pieces)), kvs)
  }

  #setAlarm(atMs: number | undefined): void {
    if (atMs === this.#alarmAtMs) return
    this.#alarm.abort()
    this.#alarmAtMs = atMs
    if (atMs === undefined) return
    this.#alarm = new AbortController()
    const { clock } = this.#options
    clock.sleep(Math.max(0, atMs - clock.nowMs()), this.#alarm.signal).then(
      () => {
        this.#alarmAtMs = undefined
        this.planSoon()
      },
      () => {},
    )
  }

  async #compute(pieces: readonly Piece[]): Promise<void> {
    const { model, clock } = this.#options
    const startedMs = clock.nowMs()
    let results: ItemResult[]
    try {
      results = await model.step(pieces.map(({ item }) => item))
    } catch (error) {
      return this.#computeAlone(pieces, error)
    }
    const computeMs = clock.nowMs() - startedMs
    this.#record(pieces, startedMs, computeMs)
    pieces.forEach(({ stream, rows }, i) => {
      const result = results[i]!
      if (result.kind === 'failed') this.#fail(stream, result.error)
      else stream.addResult(result, rows, computeMs)
      if (stream.waitingRows === 0) this.#waiting.delete(stream)
    })
  }

  /** A failed step leaves every sequence as it was: alone, only the faulty stream fails again. */
  async #computeAlone(pieces: readonly Piece[], error: unknown): Promise<void> {
    if (pieces.length > 1) {
      this.metrics.splits += 1
      for (const piece of pieces) await this.#compute([piece])
      return
    }
    for (const { stream } of pieces) this.#fail(stream, error)
  }

  #fail(stream: EngineStream, error: unknown): void {
    this.metrics.failedItems += 1
    this.#waiting.delete(stream)
    stream.fail(error)
  }

  #record(pieces: readonly Piece[], startedMs: number, computeMs: number): void {
    const tokens = rowsOf(pieces)
    const promptRows = rowsOf(pieces.filter(({ phase }) => phase === 'prefill'))
    this.#speeds.record({ rows: tokens, promptRows, streams: pieces.length, seconds: computeMs / 1_000 })
    const step = { startedMs, items: pieces.length, tokens, computeMs }
    this.metrics.record(
      step,
      pieces.map(({ arrivedMs }) => arrivedMs),
    )
    this.#options.onStep?.(step)
  }
}

const rowsOf = (pieces: readonly Piece[]) => pieces.reduce((sum, { rows }) => sum + rows, 0)

const shuttingDown = () => new BrimError('CANCELED', 'the bridge is shutting down')
