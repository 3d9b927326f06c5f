import type { KvTiers } from './kv-tiers.ts'
import type { ServingPlan } from './policy.ts'
import { reuseOf } from './prefix-reuse.ts'
import type { ServedStream } from './served-stream.ts'
import type { ServedStreams } from './served-streams.ts'
import type { FoundRows, StepPiece } from './serving-events.ts'

export interface PlanExecutionOptions {
  /** Whether answers may begin with rows of others: `compare` asks for them. */
  readonly sharesPrefixes: boolean
  /** No step begins while an eviction or a load is under way. */
  readonly waitsForTransfers: boolean
}

/** A plan that has been carried out; undefined: a reply is awaited. */
export type ExecutedPlan =
  | {
      /** Of the step that begins; empty: none does. */
      readonly pieces: readonly StepPiece[]
      /** Whether the next plan may differ all the same: a stream has been preempted beyond this one. */
      readonly mayDiffer: boolean
      readonly lookAgainAtMs: number | undefined
    }
  | undefined

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
  readonly #streams: ServedStreams
  readonly #tiers: KvTiers
  readonly #options: PlanExecutionOptions
  #underWay: PlanUnderWay | undefined

  constructor(streams: ServedStreams, tiers: KvTiers, options: PlanExecutionOptions) {
    this.#streams = streams
    this.#tiers = tiers
    this.#options = options
  }

  /** Whether a reply is awaited. */
  get isUnderWay(): boolean {
    return this.#underWay !== undefined
  }

  begin(plan: ServingPlan): ExecutedPlan {
    for (const handle of plan.evict) this.#streams.memory.evictCached(handle)
    let mayDiffer = false
    for (const id of plan.preempt) {
      const stream = this.#streams.get(id)
      if (stream) this.#preempt(stream)
      mayDiffer ||= stream?.place === 'evicted'
    }
    return this.#resume({ plan, resumed: 0, mayDiffer, starting: [], behind: [] })
  }

  /** The reply to `restart`. */
  onFound(stream: ServedStream, found: FoundRows): ExecutedPlan {
    const { rows, cached, saved = 0 } = found
    if (saved > rows) {
      stream.findRows(saved)
      this.#tiers.pages.adopt(stream, saved)
      this.#tiers.load(stream)
      return this.#resume(this.#demand())
    }
    if (rows > 0 && cached && reuseOf(cached.rows, rows) === 'take' && this.#streams.memory.takeCached(cached.handle, stream)) {
      this.#streams.actions.push({ kind: 'take prefix', stream: stream.id, handle: cached.handle, rows })
      stream.findRows(rows)
    } else if (rows > 0 && this.beginWithCopy(stream, found, stream.neededBytes)) stream.findRows(rows)
    if (saved > 0) this.#tiers.pages.adopt(stream, Math.min(saved, stream.contextLength))
    if (stream.isResident) return this.#replaceRows()
    this.#tiers.restart(stream)
    return this.#resume(this.#demand())
  }

  /** The reply to `compare`. @param waiting streams that wait for others' rows @param behind those for which there are more rows */
  onCompared(waiting: readonly number[], behind: readonly number[]): ExecutedPlan {
    const underWay = this.#demand()
    if (waiting.length > 0) underWay.starting = underWay.starting.filter(({ stream }) => !waiting.includes(stream.id))
    underWay.behind = behind
    return this.#replaceRows()
  }

  /** @param bytes that the stream is charged with the rows @returns whether it begins with a copy of them */
  beginWithCopy(stream: ServedStream, { rows, cached }: FoundRows, bytes: number): boolean {
    const { memory } = this.#streams
    if (!memory.charge(stream, bytes)) return false
    // Charging may have evicted it.
    if (cached && !memory.isCached(cached.handle)) return false
    this.#streams.actions.push({ kind: 'copy prefix', stream: stream.id, rows })
    return true
  }

  #demand(): PlanUnderWay {
    if (!this.#underWay) throw new Error('no plan awaits a reply')
    return this.#underWay
  }

  #resume(underWay: PlanUnderWay): ExecutedPlan {
    this.#underWay = underWay
    const { resume } = underWay.plan
    while (underWay.resumed < resume.length) {
      const { stream: id, by } = resume[underWay.resumed++]!
      const stream = this.#streams.get(id)
      if (!stream || stream.isClosing || stream.place !== 'evicted') continue
      if (stream.canRecompute && (by === 'recompute' || stream.contextLength === 0)) {
        stream.isFresh = true
        return this.#restart(stream)
      }
      if (this.#tiers.load(stream) && stream.isNew) this.#streams.admit(stream)
    }
    // What has just begun to move may be waited for.
    if (this.#options.waitsForTransfers && this.#tiers.isMoving) return this.#end([])
    return this.#chooseStreams(underWay)
  }

  #restart(stream: ServedStream): undefined {
    this.#tiers.beginAnew(stream)
    this.#streams.actions.push({ kind: 'restart', stream: stream.id })
  }

  #chooseStreams(underWay: PlanUnderWay): ExecutedPlan {
    let hasFresh = false
    for (const { stream: id, rows } of underWay.plan.run) {
      const stream = this.#streams.get(id)
      // A stream that was to be resumed is still evicted if another could not be preempted.
      if (stream?.canRun) {
        underWay.starting.push({ stream, rows })
        hasFresh ||= stream.isFresh && stream.canRecompute
      } else {
        // It waited for its place alone, which it has now: the next plan has room for other rows.
        underWay.mayDiffer ||= stream?.waitingRows === 0
      }
    }
    if (!hasFresh || !this.#options.sharesPrefixes) return this.#choosePieces()
    const pieces = underWay.starting.map(({ stream, rows }) => ({ stream: stream.id, rows }))
    this.#streams.actions.push({ kind: 'compare', pieces })
    return undefined
  }

  /** Streams that have computed nothing yet begin with more rows. */
  #replaceRows(): ExecutedPlan {
    const underWay = this.#demand()
    const [id, ...others] = underWay.behind
    underWay.behind = others
    const stream = id === undefined ? undefined : this.#streams.get(id)
    return stream ? this.#restart(stream) : this.#choosePieces()
  }

  #choosePieces(): ExecutedPlan {
    const underWay = this.#demand()
    const pieces: StepPiece[] = []
    for (const { stream, rows: planned } of underWay.starting) {
      if (this.#reserve(stream)) {
        const { id, phase, waitingRows, contextLength, arrivedMs } = stream
        // It may have found some of its rows.
        pieces.push({ stream: id, rows: Math.min(planned, waitingRows), phase, waitingRows, contextLength, arrivedMs })
      } else underWay.mayDiffer ||= !stream.isResident
    }
    return this.#end(pieces)
  }

  /**
   * Charges what the waiting rows need. An answer without memory for them is preempted, unless an eviction is about to free
   * some; a device's rows keep what they have, and wait. @returns whether the rows can run
   */
  #reserve(stream: ServedStream): boolean {
    if (this.#streams.memory.charge(stream, stream.neededBytes)) return true
    if (stream.source === 'answer' && !this.#tiers.isEvicting) this.#preempt(stream)
    return false
  }

  /** The KV is about to leave the memory, unless a step uses it. */
  #preempt(stream: ServedStream): void {
    if (stream.isInStep || stream.isClosing) return
    this.#tiers.evict(stream)
    this.#streams.waits.begin(stream, this.#streams.nowMs)
  }

  #end(pieces: readonly StepPiece[]): ExecutedPlan {
    const { plan, mayDiffer } = this.#demand()
    this.#underWay = undefined
    return { pieces, mayDiffer, lookAgainAtMs: plan.lookAgainAtMs }
  }
}
