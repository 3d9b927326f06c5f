import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { loadOf } from '../../core/policy/estimate/step-time.ts'
import { type HandlersOf, handleKind, type Machine, type OfKind } from '../../core/policy/machine.ts'
import type { FullQueue } from '../../core/policy/serving/answer-queue.ts'
import type { FailureReason, ServingAction, ServingInput, StepPiece } from '../../core/policy/serving/serving-events.ts'
import type { ServingMachine } from '../../core/policy/serving/serving-machine.ts'
import type { MeasuredStep } from '../../core/policy/serving/step-speeds.ts'
import type { EngineStream } from './engine-stream.ts'
import type { ItemResult, ModelItem, ServedModel } from './served-model.ts'
import { type EndedStep, ServingMetrics } from './serving-metrics.ts'
import { RowStream } from './stream.ts'
import { ModelTokenStream } from './token-stream.ts'

export interface StepLoopOptions {
  readonly model: ServedModel
  readonly machine: ServingMachine
  /** The machine, perhaps with its inputs taken down. */
  readonly decider: Machine<ServingInput, ServingAction>
  /** Streams of one step. */
  readonly maxStreams: number
  /** The sequence of a cached prefix, which is cached no longer. */
  readonly takePrefix: (handle: string) => ModelItem['sequence'] | undefined
  readonly clock: Clock
  readonly onStep?: ((step: EndedStep) => void) | undefined
  readonly metrics?: ServingMetrics | undefined
}

/** A stream's rows in a step that computes. */
interface RunningPiece extends StepPiece {
  readonly from: EngineStream
  readonly item: ModelItem
}

interface PieceResult {
  readonly result: ItemResult
  readonly computeMs: number
}

interface ComputedStep {
  readonly runs: readonly MeasuredStep[]
  /** In the order of the pieces. */
  readonly results: readonly PieceResult[]
}

/** After so many pages, transfers let other work of the process proceed. */
const pagesPerTurn = 8
const tick: ServingInput = { kind: 'tick' }

/** Does what the serving machine asks for: computes steps, moves rows between the tiers; and tells it how that ended. */
export class StepLoop {
  readonly metrics: ServingMetrics
  readonly #options: StepLoopOptions
  readonly #machine: ServingMachine
  readonly #streams = new Map<number, EngineStream>()
  readonly #underWay = new Set<Promise<void>>()
  /** Copies that are being freed. */
  readonly #dropping = new Set<Promise<void>>()
  #planning: Promise<void> | undefined
  #alarm = new AbortController()
  #alarmMs: number | undefined
  /** What follows from the end of a step is arranged once. */
  #isEndingStep = false
  #loadedPages = 0
  /** Resolves when the pages that are written during steps have been. */
  #writing = Promise.resolve()

  readonly #handlers: HandlersOf<ServingAction> = {
    begin: (action) => this.#begin(action),
    save: (action) => this.#saveInTurn(action),
    load: (action) => void this.#load(action),
    leave: ({ stream, rows }) => this.#demand(stream).kv.leave(rows),
    // Those of a closed stream are left or freed at once with `closed`.
    'drop copy': ({ stream }) => this.#machine.get(stream)?.stage !== 'closed' && this.#endCopy(this.#demand(stream), false),
    restart: ({ stream }) => this.#answer(stream).restart(),
    compare: ({ pieces }) => this.#compare(pieces),
    'take prefix': ({ stream, handle, rows }) => this.#answer(stream).takeOver(this.#demandPrefix(handle), rows).release(),
    'copy prefix': (action) => this.#copyPrefix(action),
    'release prefix': ({ handle }) => this.#options.takePrefix(handle)?.release(),
    admitted: ({ stream }) => this.#session(stream).onAdmitted(),
    fail: ({ stream, why, length }) => this.#fail(this.#demand(stream), why, length),
    displaced: ({ stream, full }) => this.#demand(stream).fail(queueFull(full)),
    refused: ({ stream, full }) => this.#answer(stream).refuse(queueFull(full)),
    closed: ({ stream, holdsRows }) => this.#close(this.#demand(stream), holdsRows),
  }

  constructor(options: StepLoopOptions) {
    this.#options = options
    this.#machine = options.machine
    this.metrics = options.metrics ?? new ServingMetrics(options.maxStreams)
  }

  add(stream: EngineStream): void {
    this.#streams.set(stream.id, stream)
  }

  remove(stream: EngineStream): void {
    this.#streams.delete(stream.id)
  }

  /** Tells the machine what has happened, and does what it asks for. */
  feed(input: ServingInput): void {
    this.#handle(input)
    this.#arrange()
  }

  /** Rejects what waits; resolves when no step runs any more. */
  async close(): Promise<void> {
    this.feed({ kind: 'stop' })
    await this.#planning
    await Promise.all(this.#underWay)
    this.#alarm.abort()
  }

  /** Resolves when the pages of all streams that have closed are freed. */
  async dropped(): Promise<void> {
    await Promise.all(this.#dropping)
  }

  #handle(input: ServingInput): void {
    for (const action of this.#options.decider.handle(input, this.#options.clock.nowMs())) handleKind(this.#handlers, action)
  }

  #saveInTurn(action: OfKind<ServingAction, 'save'>): void {
    if (action.isDuringStep) this.#writing = this.#writing.then(() => this.#save(action))
    else void this.#save(action)
  }

  #fail(stream: EngineStream, why: FailureReason, length: number): void {
    stream.fail(stream.errorOf(why, length))
  }

  #close(stream: EngineStream, holdsRows: boolean): void {
    this.#endCopy(stream, stream.leavesPages)
    stream.onClosed(holdsRows)
  }

  #demand(id: number): EngineStream {
    const stream = this.#streams.get(id)
    if (!stream) throw new Error(`stream ${id} is not open`)
    return stream
  }

  #answer(id: number): ModelTokenStream {
    const stream = this.#demand(id)
    if (!(stream instanceof ModelTokenStream)) throw new Error(`stream ${id} is no answer`)
    return stream
  }

  #session(id: number): RowStream {
    const stream = this.#demand(id)
    if (!(stream instanceof RowStream)) throw new Error(`stream ${id} is no session`)
    return stream
  }

  #demandPrefix(handle: string): ModelItem['sequence'] {
    const sequence = this.#options.takePrefix(handle)
    if (!sequence) throw new Error('a prefix is taken that is not cached')
    return sequence
  }

  /** When the machine wants to know that nothing else has happened. */
  #arrange(): void {
    if (this.#isEndingStep) return
    const { wakeMs } = this.#machine
    if (wakeMs === Number.NEGATIVE_INFINITY) this.#planning ??= this.#planSoon()
    else this.#setAlarm(wakeMs)
  }

  async #planSoon(): Promise<void> {
    while (this.#machine.wakeMs === Number.NEGATIVE_INFINITY) {
      // Lets the streams of the last step append their next rows.
      await nextTurn()
      this.#handle(tick)
    }
    // In the same turn as the last plan: what changes after it begins a new round.
    this.#planning = undefined
    this.#arrange()
  }

  #setAlarm(atMs: number | undefined): void {
    if (atMs === this.#alarmMs) return
    this.#alarm.abort()
    this.#alarmMs = atMs
    if (atMs === undefined) return
    this.#alarm = new AbortController()
    const { clock } = this.#options
    clock.sleep(Math.max(0, atMs - clock.nowMs()), this.#alarm.signal).then(
      () => {
        this.#alarmMs = undefined
        this.feed(tick)
      },
      () => {},
    )
  }

  /** Answers that wait for rows which others of the step are about to compute, and those for which there are more rows by now. */
  #compare(pieces: readonly { readonly stream: number; readonly rows: number }[]): void {
    const waiting: number[] = []
    const behind: number[] = []
    const starting: { readonly stream: ModelTokenStream; readonly rows: number }[] = []
    for (const { stream: id, rows } of pieces) {
      const stream = this.#demand(id)
      if (!(stream instanceof ModelTokenStream)) continue
      const isFresh = this.#machine.get(id)?.isFresh
      if (isFresh && starting.some((other) => stream.awaitsRowsOf(other.stream, other.rows))) {
        waiting.push(id)
        continue
      }
      starting.push({ stream, rows })
      if (isFresh && stream.isBehind) behind.push(id)
    }
    this.#handle({ kind: 'compared', waiting, behind })
  }

  #copyPrefix({ stream: id, rows }: { readonly stream: number; readonly rows: number }): void {
    const stream = this.#demand(id)
    try {
      stream.copyFound(rows)
    } catch (err) {
      stream.onNotCopied(err)
      this.#handle({ kind: 'not found', stream: id })
    }
  }

  async #save({ stream: id, from, to, isDuringStep }: OfKind<ServingAction, 'save'>): Promise<void> {
    // The library computes on threads of its own, from this turn on.
    if (isDuringStep) await nextTurn()
    this.feed({ kind: 'saved', stream: id, ...(await this.#demand(id).kv.save(from, to)) })
  }

  async #load({ stream: id, from, reserve }: OfKind<ServingAction, 'load'>): Promise<void> {
    const loaded = await this.#demand(id).kv.load(from, reserve)
    this.#loadedPages += 1
    if (this.#loadedPages % pagesPerTurn === 0) await nextTurn()
    this.feed({ kind: 'loaded', stream: id, ...loaded })
  }

  /** @param isLeft to a later stream */
  #endCopy(stream: EngineStream, isLeft: boolean): void {
    const dropping = stream.kv.endCopy(isLeft).then(() => {
      this.#dropping.delete(dropping)
      this.feed({ kind: 'copy dropped' })
    })
    this.#dropping.add(dropping)
  }

  #begin({ step, pieces }: OfKind<ServingAction, 'begin'>): void {
    const running = pieces.map((piece): RunningPiece => {
      const from = this.#demand(piece.stream)
      return { ...piece, from, item: from.startStep(piece.rows) }
    })
    const computing = this.#compute(running).then((computed) => {
      this.#underWay.delete(computing)
      this.#end(step, running, computed)
    })
    this.#underWay.add(computing)
  }

  #end(step: number, pieces: readonly RunningPiece[], { runs, results }: ComputedStep): void {
    this.#isEndingStep = true
    for (const { from } of pieces) from.finishStep()
    const failed = pieces.filter((_, at) => isFailed(results[at]!)).map(({ stream }) => stream)
    this.#handle({ kind: 'step ended', step, runs, failed, trees: pieces.flatMap(treeOf) })
    for (const [at, { from, rows }] of pieces.entries()) this.#give(from, rows, results[at]!)
    // Streams that have their next rows need no turn; their readers get the last tokens while the next step computes.
    if (!this.#planning && pieces.every(({ from }) => from.continuesAtOnce)) this.#handle(tick)
    for (const { from } of pieces) from.deliver()
    this.#isEndingStep = false
    this.#arrange()
  }

  #give(stream: EngineStream, rows: number, { result, computeMs }: PieceResult): void {
    if (result.kind === 'failed') {
      this.metrics.failedItems += 1
      stream.fail(result.error)
    } else stream.addResult(result, rows, computeMs)
  }

  async #compute(pieces: readonly RunningPiece[]): Promise<ComputedStep> {
    const { model, clock } = this.#options
    const startedMs = clock.nowMs()
    try {
      const results = await model.step(pieces.map(({ item }) => item))
      const computeMs = clock.nowMs() - startedMs
      return { runs: [this.#record(pieces, startedMs, computeMs)], results: results.map((result) => ({ result, computeMs })) }
    } catch (error) {
      return pieces.length > 1 ? this.#computeAlone(pieces) : failedRun(error)
    }
  }

  /** A failed step leaves every sequence as it was: alone, only the faulty stream fails again. */
  async #computeAlone(pieces: readonly RunningPiece[]): Promise<ComputedStep> {
    this.metrics.splits += 1
    const runs: MeasuredStep[] = []
    const results: PieceResult[] = []
    for (const piece of pieces) {
      const alone = await this.#compute([piece])
      runs.push(...alone.runs)
      results.push(...alone.results)
    }
    return { runs, results }
  }

  #record(pieces: readonly RunningPiece[], startedMs: number, computeMs: number): MeasuredStep {
    const rows = rowsOf(pieces)
    const predictedS = this.#machine.monitor.g.at(loadOf(pieces))
    const step = { startedMs, items: pieces.length, tokens: rows, computeMs, predictedS }
    this.metrics.record(
      step,
      pieces.map(({ arrivedMs }) => arrivedMs),
    )
    this.#options.onStep?.(step)
    const promptRows = rowsOf(pieces.filter(({ phase }) => phase === 'prefill'))
    return { rows, promptRows, streams: pieces.length, seconds: computeMs / 1_000 }
  }
}

const failedRun = (error: unknown): ComputedStep => ({ runs: [], results: [{ result: { kind: 'failed', error }, computeMs: 0 }] })

const rowsOf = (pieces: readonly StepPiece[]) => pieces.reduce((sum, { rows }) => sum + rows, 0)

const isFailed = ({ result }: PieceResult) => result.kind === 'failed'

function treeOf({ stream, item: { sequence } }: RunningPiece): { readonly stream: number; readonly line: number }[] {
  return sequence.line < sequence.length ? [{ stream, line: sequence.line }] : []
}

const queueFull = ({ waiting, retryAfterMs }: FullQueue) =>
  new BrimError('QUEUE_FULL', `${waiting} answers wait for the bridge's model, the maximum (limit waitingAnswers)`, {
    hint: 'ask again after the stated time',
    retryAfterMs,
  })
