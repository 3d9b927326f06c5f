import type { KvTiers } from './kv-tiers.ts'
import type { ServingPlan } from './policy.ts'
import { reuseOf } from './prefix-reuse.ts'
import type { ServedStream } from './served-stream.ts'
import type { FoundRows, ServingAction, StepPiece } from './serving-events.ts'

export interface PlanExecutionOptions {
  /** Whether answers may begin with rows of others: `compare` asks for them. */
  readonly sharesPrefixes: boolean
  /** No step begins while an eviction or a load is under way. */
  readonly waitsForTransfers: boolean
}

/** What a plan is carried out on. */
export interface PlanHost {
  get(id: number): ServedStream | undefined
  emit(action: ServingAction): void
  /** The KV is about to leave the memory, unless a step uses it. */
  preempt(stream: ServedStream): void
  /** A session has its first memory. */
  admit(session: ServedStream): void
  /**
   * The plan has been carried out.
   * @param pieces of the step that begins; empty: none does
   * @param mayDiffer whether the next plan may differ all the same: a stream has been preempted beyond this one
   */
  onEnd(pieces: readonly StepPiece[], mayDiffer: boolean, lookAgainAtMs: number | undefined): void
}

interface PlanUnderWay {
  readonly plan: ServingPlan
  /** How many of its resumptions have been carried out. */
  resumed: number
  mayDiffer: boolean
  /** The step, while `compare` is not answered. */
  starting: { readonly stream: ServedStream; readonly rows: number }[]
  /** Streams of it that are going to begin with more rows. */
  behind: readonly number[]
}

/**
 * Carries a plan out: evicts, preempts and resumes, and then chooses the pieces of the step. Where rows of other answers may be
 * begun with, it waits for the reply (`found`, `compared`). Mutable.
 */
export class PlanExecution {
  readonly #tiers: KvTiers
  readonly #options: PlanExecutionOptions
  readonly #host: PlanHost
  #underWay: PlanUnderWay | undefined

  constructor(tiers: KvTiers, options: PlanExecutionOptions, host: PlanHost) {
    this.#tiers = tiers
    this.#options = options
    this.#host = host
  }

  /** Whether a reply is awaited. */
  get isUnderWay(): boolean {
    return this.#underWay !== undefined
  }

  begin(plan: ServingPlan): void {
    for (const handle of plan.evict) this.#tiers.memory.evictCached(handle)
    let mayDiffer = false
    for (const id of plan.preempt) {
      const stream = this.#host.get(id)
      if (stream) this.#host.preempt(stream)
      mayDiffer ||= stream?.place === 'evicted'
    }
    this.#resume({ plan, resumed: 0, mayDiffer, starting: [], behind: [] })
  }

  /** The reply to `restart`. */
  onFound(stream: ServedStream, found: FoundRows): void {
    const { rows, cached } = found
    if (rows > 0 && cached && reuseOf(cached.rows, rows) === 'take' && this.#tiers.memory.takeCached(cached.handle, stream)) {
      this.#host.emit({ kind: 'take prefix', stream: stream.id, handle: cached.handle, rows })
      stream.findRows(rows)
    } else if (rows > 0 && this.beginWithCopy(stream, found, stream.neededBytes)) stream.findRows(rows)
    if (stream.isResident) this.#replaceRows()
    else {
      this.#tiers.restart(stream)
      this.#resume(this.#demand())
    }
  }

  /** The reply to `compare`. @param waiting streams that wait for others' rows @param behind those for which there are more rows */
  onCompared(waiting: readonly number[], behind: readonly number[]): void {
    const underWay = this.#demand()
    if (waiting.length > 0) underWay.starting = underWay.starting.filter(({ stream }) => !waiting.includes(stream.id))
    underWay.behind = behind
    this.#replaceRows()
  }

  /** @param bytes that the stream is charged with the rows @returns whether it begins with a copy of them */
  beginWithCopy(stream: ServedStream, { rows, cached }: FoundRows, bytes: number): boolean {
    const { memory } = this.#tiers
    if (!memory.charge(stream, bytes)) return false
    // Charging may have evicted it.
    if (cached && !memory.isCached(cached.handle)) return false
    this.#host.emit({ kind: 'copy prefix', stream: stream.id, rows })
    return true
  }

  #demand(): PlanUnderWay {
    if (!this.#underWay) throw new Error('no plan awaits a reply')
    return this.#underWay
  }

  #resume(underWay: PlanUnderWay): void {
    this.#underWay = underWay
    const { resume } = underWay.plan
    while (underWay.resumed < resume.length) {
      const { stream: id, by } = resume[underWay.resumed++]!
      const stream = this.#host.get(id)
      if (!stream || stream.isClosing || stream.place !== 'evicted') continue
      if (stream.canRecompute && (by === 'recompute' || stream.contextLength === 0)) {
        stream.isFresh = true
        this.#restart(stream)
        return
      }
      if (this.#tiers.load(stream) && stream.isNew) this.#host.admit(stream)
    }
    // What has just begun to move may be waited for.
    if (this.#options.waitsForTransfers && this.#tiers.isMoving) this.#end([])
    else this.#chooseStreams(underWay)
  }

  #restart(stream: ServedStream): void {
    this.#tiers.beginAnew(stream)
    this.#host.emit({ kind: 'restart', stream: stream.id })
  }

  #chooseStreams(underWay: PlanUnderWay): void {
    let hasFresh = false
    for (const { stream: id, rows } of underWay.plan.run) {
      const stream = this.#host.get(id)
      // A stream that was to be resumed is still evicted if another could not be preempted.
      if (stream?.canRun) {
        underWay.starting.push({ stream, rows })
        hasFresh ||= stream.isFresh && stream.canRecompute
      } else {
        // It waited for its place alone, which it has now: the next plan has room for other rows.
        underWay.mayDiffer ||= stream?.waitingRows === 0
      }
    }
    if (hasFresh && this.#options.sharesPrefixes)
      this.#host.emit({ kind: 'compare', pieces: underWay.starting.map(({ stream, rows }) => ({ stream: stream.id, rows })) })
    else this.#choosePieces()
  }

  /** Streams that have computed nothing yet begin with more rows. */
  #replaceRows(): void {
    const underWay = this.#demand()
    const [id, ...others] = underWay.behind
    underWay.behind = others
    const stream = id === undefined ? undefined : this.#host.get(id)
    if (stream) this.#restart(stream)
    else this.#choosePieces()
  }

  #choosePieces(): void {
    const underWay = this.#demand()
    const pieces: StepPiece[] = []
    for (const { stream, rows: planned } of underWay.starting) {
      if (this.#reserve(stream)) {
        const { id, phase, waitingRows, contextLength, arrivedMs } = stream
        // It may have found some of its rows.
        pieces.push({ stream: id, rows: Math.min(planned, waitingRows), phase, waitingRows, contextLength, arrivedMs })
      } else underWay.mayDiffer ||= !stream.isResident
    }
    this.#end(pieces)
  }

  /**
   * Charges what the waiting rows need. An answer without memory for them is preempted, unless an eviction is about to free
   * some; a device's rows keep what they have, and wait. @returns whether the rows can run
   */
  #reserve(stream: ServedStream): boolean {
    if (this.#tiers.charge(stream)) return true
    if (stream.source === 'answer' && !this.#tiers.isEvicting) this.#host.preempt(stream)
    return false
  }

  #end(pieces: readonly StepPiece[]): void {
    const { plan, mayDiffer } = this.#demand()
    this.#underWay = undefined
    this.#host.onEnd(pieces, mayDiffer, plan.lookAgainAtMs)
  }
}
