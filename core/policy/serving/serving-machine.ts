import type { KvSize } from '../admission/kv.ts'
import { sessionWaitMs } from '../admission/session.ts'
import type { StateMonitor } from '../estimate/state-monitor.ts'
import { type Machine, noActions } from '../machine.ts'
import { AnswerQueue } from './answer-queue.ts'
import { KvMemory, type KvMemoryLimits } from './kv-memory.ts'
import { KvTiers, type TierOptions } from './kv-tiers.ts'
import type { ServingPlan, ServingPolicy, ServingSpeeds, ServingState, StreamState } from './policy.ts'
import { reuseOf } from './prefix-reuse.ts'
import { Reader } from './reader.ts'
import { ServedStream, type ServedStreamHost } from './served-stream.ts'
import type { FailureReason, FoundRows, ServingAction, ServingInput, StepPiece } from './serving-events.ts'
import { StepSpeeds } from './step-speeds.ts'
import { WaitingStreams } from './waiting-streams.ts'

/** What a serving machine keeps to, in plain data. */
export interface ServingRules {
  /** What one step holds, and how many are under way at once: as many as the model has stages. */
  readonly step: { readonly rows: number; readonly streams: number; readonly pipeline: number }
  readonly memory: KvMemoryLimits
  readonly tiers: TierOptions
  /** Positions of a stream, at most. */
  readonly contextLimit: number
  /** Whether answers may begin with rows of others: `compare` asks for them. */
  readonly sharesPrefixes: boolean
  /** Rows of a device wait so long for memory that others hold. */
  readonly maxMemoryWaitMs: number
  /** Answers that wait for their first step, at most. */
  readonly maxWaitingAnswers: number
  /** Weight of the past in measured steps; absent: the default. */
  readonly smoothing?: number | undefined
}

export interface ServingMachineOptions extends ServingRules {
  /** Of its own: a policy may remember its plans. */
  readonly policy: ServingPolicy
  /** KV of a device's rows, and of an answer's. */
  readonly sizes: { readonly device: KvSize; readonly answer: KvSize }
  /** What only the simulator varies. */
  readonly whatIf?: {
    /** No step begins while an eviction or a load is under way, as where the scheduler moves the KV itself. */
    readonly waitsForTransfers: boolean
    /** Devices wait for memory for as long as others need it: no session and no rows are refused for the lack of it. */
    readonly waitsForMemory: boolean
    /** Whether a prompt's next piece begins once the one before has left the first stage; else never two steps hold one stream. */
    readonly pipelinedPrompts: boolean
    /** Speeds that the policy gets in place of those that have been measured. */
    readonly speeds?: Partial<ServingSpeeds> | undefined
  }
}

interface StepUnderWay {
  readonly pieces: readonly StepPiece[]
  /** Whether its rows have left the first stage. */
  hasEntered: boolean
}

/** A plan that is being carried out. */
interface CarriedOut {
  readonly plan: ServingPlan
  /** How many of its resumptions have been. */
  resumed: number
  /** Whether the next plan may differ although no step has begun: a stream has been preempted beyond the plan. */
  mayDiffer: boolean
  /** The step, while `compare` is not answered. */
  starting: { readonly stream: ServedStream; readonly rows: number }[]
  /** Streams of it that are going to begin with more rows. */
  behind: readonly number[]
}

/**
 * The serving loop: which streams hold memory, which of their rows are in a step, and which move between the tiers, as the
 * policy's plans say. Streams are numbers of rows here; their rows, buffers and pages are elsewhere.
 */
export class ServingMachine implements Machine<ServingInput, ServingAction>, ServedStreamHost {
  readonly #options: ServingMachineOptions
  readonly #memory: KvMemory
  readonly #tiers: KvTiers
  readonly #answers: AnswerQueue
  readonly #speeds: StepSpeeds
  readonly #state: ServingState
  #planSpeeds: ServingSpeeds | undefined
  readonly #streams = new Map<number, ServedStream>()
  readonly #waiting = new WaitingStreams()
  readonly #steps = new Map<number, StepUnderWay>()
  /** When devices' streams stop waiting for memory. */
  readonly #deadlines = new Map<ServedStream, number>()
  #carriedOut: CarriedOut | undefined
  #actions: ServingAction[] = []
  #nowMs = 0
  /** The next plan may differ from the last one. */
  #isDue = false
  #alarmMs: number | undefined
  #lastDecodeMs: number | undefined
  #isStopped = false
  stepsBegun = 0

  constructor(options: ServingMachineOptions) {
    this.#options = options
    this.#memory = new KvMemory(options.memory, (handle) => this.#emit({ kind: 'release prefix', handle }))
    this.#tiers = new KvTiers(this.#memory, options.tiers, {
      emit: (action) => this.#emit(action),
      fail: (stream, why) => this.#fail(stream, why),
      onTransferEnd: (stream) => {
        this.#isDue = true
        this.#settle(stream)
      },
    })
    this.#answers = new AnswerQueue(options.maxWaitingAnswers)
    this.#speeds = new StepSpeeds(options.smoothing)
    this.#state = this.#visible()
  }

  get memory(): Pick<KvMemory, 'budgetBytes' | 'usedBytes' | 'cachedBytes' | 'shortageOf'> {
    return this.#memory
  }

  get transfers(): KvTiers['counts'] {
    return this.#tiers.counts
  }

  get hasSlowTier(): boolean {
    return this.#tiers.hasSlowTier
  }

  /** The measured steps, as HAT's decisions read them. */
  get monitor(): StateMonitor {
    return this.#speeds.monitor
  }

  /** Answers that wait for their first step. */
  get waitingAnswers(): number {
    return this.#answers.length
  }

  /** The stream as the machine has it. */
  get(id: number): Readonly<ServedStream> | undefined {
    return this.#streams.get(id)
  }

  /** The lowest number: as soon as nothing else happens at this time. */
  get wakeMs(): number | undefined {
    if (this.#isDue && this.#canBegin) return Number.NEGATIVE_INFINITY
    let atMs = this.#alarmMs
    for (const deadlineMs of this.#deadlines.values()) if (atMs === undefined || deadlineMs < atMs) atMs = deadlineMs
    return atMs
  }

  handle(input: ServingInput, nowMs: number): readonly ServingAction[] {
    this.#nowMs = nowMs
    this.#take(input)
    if (this.#actions.length === 0) return noActions
    const actions = this.#actions
    this.#actions = []
    return actions
  }

  #take(input: ServingInput): void {
    switch (input.kind) {
      case 'tick':
        this.#tick()
        break
      case 'step ended':
        this.#endStep(input)
        break
      case 'rows':
        this.#addRows(input)
        break
      case 'saved':
        this.#tiers.onSaved(this.#demand(input.stream), input.outcome, input.seconds)
        break
      case 'loaded':
        this.#tiers.onLoaded(this.#demand(input.stream), input.outcome, input.seconds)
        break
      case 'copy dropped':
        this.#tiers.onCopyDropped()
        break
      case 'answer opened':
        this.#openAnswer(input)
        break
      case 'session opened':
        this.#openSession(input)
        break
      case 'session resumed':
        this.#resumeSession(input)
        break
      case 'rate':
        this.#demand(input.stream).reader?.setRate(input.tokensPerS, this.#nowMs)
        break
      case 'reported':
        this.#report(input)
        break
      case 'reshaped':
        this.#demand(input.stream).reshape(input.length, input.line, input.unmoved)
        break
      case 'held':
        if (!this.#memory.hold(this.#demand(input.stream), input.bytes))
          this.#emit({ kind: 'hold refused', stream: input.stream })
        break
      case 'found':
        this.#onFound(input)
        break
      case 'not found':
        this.#loseFound(this.#demand(input.stream))
        break
      case 'compared':
        this.#onCompared(input)
        break
      case 'step entered':
        this.#enterStep(input.step)
        break
      case 'closing':
        this.#close(this.#demand(input.stream), input.keep)
        break
      case 'released':
      case 'cached':
        this.#forget(this.#demand(input.stream), input.kind === 'cached' ? input.handle : undefined)
        break
      case 'prefix dropped':
        this.#memory.evictCached(input.handle)
        break
      case 'stop':
        this.#isStopped = true
        this.#alarmMs = undefined
        this.#rejectWaiting()
        break
      default:
        input satisfies never
    }
  }

  #emit(action: ServingAction): void {
    this.#actions.push(action)
  }

  #demand(id: number): ServedStream {
    const stream = this.#streams.get(id)
    if (!stream) throw new Error(`stream ${id} is not open`)
    return stream
  }

  // What the policy sees.

  /** Made once, because its parts are read when they are needed. */
  #visible(): ServingState {
    const { step, tiers } = this.#options
    const [memory, moving] = [this.#memory, this.#tiers]
    const waiting = () => this.#visibleWaiting()
    const idle = () =>
      [...this.#streams.values()].filter(({ queueAt, isClosing, isInStep }) => queueAt < 0 && (!isClosing || isInStep))
    const speeds = () => (this.#planSpeeds ??= this.#measured())
    const lastDecodeMs = () => this.#lastDecodeMs
    return {
      get waiting() {
        return waiting()
      },
      get idle() {
        return idle()
      },
      get cached() {
        return memory.cached
      },
      memory: moving.usage,
      get leavingBytes() {
        return moving.leavingBytes
      },
      slow: tiers.slowBytes > 0 ? { budgetBytes: tiers.slowBytes } : undefined,
      get speeds() {
        return speeds()
      },
      step,
      get lastDecodeMs() {
        return lastDecodeMs()
      },
    }
  }

  /** Until the owner may have the memory that its waiting rows need, an evicted stream is no concern of the policy. */
  #visibleWaiting(): readonly StreamState[] {
    const waiting = this.#waiting.compact()
    return waiting.every(this.#isWithinShare) ? waiting : waiting.filter(this.#isWithinShare)
  }

  readonly #isWithinShare = (stream: ServedStream): boolean =>
    stream.source === 'answer' || stream.place !== 'evicted' || this.#memory.isWithinShare(stream, stream.missingBytes)

  /** Collected once for each plan, and only if it is read. */
  #measured(): ServingSpeeds {
    const { evictBytesPerS, loadBytesPerS } = this.#tiers
    const stepSOf = (rows: number) => this.#speeds.secondsOf(rows)
    return { ...this.#speeds.speeds, evictBytesPerS, loadBytesPerS, stepSOf, ...this.#options.whatIf?.speeds }
  }

  // Streams and their rows.

  #add(
    { stream: id, owner, client }: { readonly stream: number; readonly owner: string; readonly client: string },
    source: 'device' | 'answer',
    reader?: Reader,
  ): ServedStream {
    const stream = new ServedStream({ id, owner, client, source, reader, size: this.#options.sizes[source] }, this)
    this.#streams.set(id, stream)
    return stream
  }

  #openSession(input: Extract<ServingInput, { kind: 'session opened' }>): void {
    const { positions, reader } = input
    const stream = this.#add(input, 'device', reader)
    if (this.#memory.charge(stream, positions * stream.size.bytesPerPosition)) {
      stream.place = 'resident'
      this.#emit({ kind: 'admitted', stream: stream.id })
      return
    }
    stream.wait(positions, 'prefill', this.#nowMs)
    if (!this.#options.whatIf?.waitsForMemory && !this.#couldGet(stream)) this.#fail(stream, 'memory')
    else {
      stream.isAdmission = true
      this.#endWaitAfter(stream, sessionWaitMs)
      this.#enqueue(stream)
    }
  }

  #resumeSession(input: Extract<ServingInput, { kind: 'session resumed' }>): void {
    const stream = this.#add(input, 'device')
    if (!this.#memory.takeCached(input.handle, stream)) throw new Error('a session resumes what is not cached')
    stream.place = 'resident'
    stream.reshape(input.rows, input.rows, 0)
  }

  #openAnswer(input: Extract<ServingInput, { kind: 'answer opened' }>): void {
    const { stream: id, client, tokensPerS, rows, following } = input
    const entry = this.#answers.enter(id, client, this.#nowMs)
    if (entry.kind === 'refused') {
      this.#emit({ kind: 'refused', stream: id, full: entry.full })
      return
    }
    if (entry.kind === 'displaced') {
      this.#waitNoMore(this.#demand(entry.stream))
      this.#emit({ kind: 'displaced', stream: entry.stream, full: entry.full })
    }
    // The last token becomes no row.
    const stream = this.#add(input, 'answer', new Reader(tokensPerS, following + 1, this.#nowMs))
    stream.followingRows = following
    stream.wait(rows, 'prefill', this.#nowMs)
    if (this.#isStopped) this.#fail(stream, 'stopped')
    else this.#enqueue(stream)
  }

  #addRows({ stream: id, rows, phase, following }: Extract<ServingInput, { kind: 'rows' }>): void {
    const stream = this.#demand(id)
    stream.followingRows = following
    stream.wait(rows, phase, this.#nowMs)
    if (stream.source === 'answer') stream.reader?.deliver(1, this.#nowMs)
    if (this.#isStopped) {
      this.#fail(stream, 'stopped')
      return
    }
    if (stream.source === 'device' && !this.#mayWait(stream)) this.#fail(stream, 'memory')
    else this.#enqueue(stream)
  }

  #report({ stream: id, tokensPerS, unread }: Extract<ServingInput, { kind: 'reported' }>): void {
    const stream = this.#demand(id)
    // How long the answer becomes is the device's secret: as long as the context, at most.
    stream.reader ??= new Reader(tokensPerS, this.#options.contextLimit, this.#nowMs)
    stream.reader.setRate(tokensPerS, this.#nowMs)
    stream.reader.report(unread, this.#nowMs)
  }

  /** Whether a device's rows have memory, or may wait for it. */
  #mayWait(stream: ServedStream): boolean {
    const isResident = stream.place === 'resident'
    if (isResident && this.#tiers.charge(stream)) return true
    const couldGet = isResident
      ? this.#options.whatIf?.waitsForMemory || this.#couldGet(stream)
      : this.#memory.canHold(stream.neededBytes)
    if (!couldGet) return false
    this.#limitWait(stream)
    return true
  }

  #enqueue(stream: ServedStream): void {
    this.#waiting.add(stream)
    this.#isDue = true
  }

  #waitNoMore(stream: ServedStream): void {
    stream.queueAt = -1
    stream.isAdmission = false
    stream.waitNoMore()
    this.#deadlines.delete(stream)
    this.#isDue = true
  }

  #fail(stream: ServedStream, why: FailureReason): void {
    const length = stream.contextLength + stream.waitingRows
    this.#waitNoMore(stream)
    this.#emit({ kind: 'fail', stream: stream.id, why, length })
  }

  /** Whether the owner's share holds what waits, and the memory could, once all streams are preempted that can be. */
  #couldGet(stream: ServedStream): boolean {
    const { missingBytes } = stream
    if (!this.#memory.isWithinShare(stream, missingBytes)) return false
    const { budgetBytes, usedBytes, cachedBytes } = this.#memory
    let bytes = budgetBytes - usedBytes + cachedBytes
    for (const other of this.#streams.values())
      if (!other.isClosing && this.#isPreemptible(other, stream)) bytes += other.chargedBytes
    return bytes >= missingBytes
  }

  /** Whether a stream can be preempted for another one: the earlier session goes first, unless readers count. */
  #isPreemptible(stream: ServedStream, other: ServedStream): boolean {
    if (stream.source === 'answer') return true
    const { heedsReaders = false } = this.#options.policy
    const comesLater = stream.id > other.id || (heedsReaders && stream.reader !== undefined && stream !== other)
    return comesLater && stream.resumptions.length > 0
  }

  /** Rows that lack memory for too long fail, so that the device can replay them at another bridge. */
  #limitWait(stream: ServedStream): void {
    if (stream.source === 'answer' || stream.waitingRows === 0 || this.#deadlines.has(stream)) return
    this.#endWaitAfter(stream, this.#options.maxMemoryWaitMs)
  }

  #endWaitAfter(stream: ServedStream, waitMs: number): void {
    if (!this.#options.whatIf?.waitsForMemory) this.#deadlines.set(stream, this.#nowMs + waitMs)
  }

  #passDeadlines(): void {
    for (const [stream, atMs] of this.#deadlines) {
      if (atMs > this.#nowMs) continue
      this.#deadlines.delete(stream)
      const hasMemory = stream.place === 'resident' && stream.missingBytes === 0
      if (stream.isAdmission || !(stream.isInStep || hasMemory)) this.#fail(stream, 'memory')
    }
  }

  #rejectWaiting(): void {
    for (const stream of [...this.#waiting.compact()]) if (!stream.isInStep) this.#fail(stream, 'stopped')
  }

  #close(stream: ServedStream, keep: number | undefined): void {
    stream.stage = 'closing'
    stream.keptRows = keep
    this.#answers.leave(stream.id, stream.client, this.#nowMs)
    if (!stream.isInStep) this.#waitNoMore(stream)
    stream.queueAt = -1
    this.#settle(stream)
  }

  /** Goes on with the end of a stream that closes, as far as its step and its transfers let it. */
  #settle(stream: ServedStream): void {
    if (stream.stage === 'closing' && !stream.isInStep) {
      stream.stage = 'ending'
      if (stream.keptRows === undefined) this.#tiers.end(stream)
      else {
        stream.reshape(stream.keptRows, stream.keptRows, stream.keptRows)
        this.#memory.hold(stream, 0)
        // The cache counts as memory: what has been preempted must fit again.
        this.#tiers.load(stream)
      }
    }
    if (stream.stage !== 'ending' || stream.isMoving) return
    stream.stage = 'closed'
    this.#tiers.close(stream)
    this.#emit({ kind: 'closed', stream: stream.id, holdsRows: stream.place === 'resident' })
  }

  #forget(stream: ServedStream, handle: string | undefined): void {
    this.#streams.delete(stream.id)
    if (handle === undefined) this.#memory.release(stream)
    else this.#memory.cache(handle, stream)
    this.#isDue = true
  }

  // Plans.

  get #canBegin(): boolean {
    const { step, whatIf } = this.#options
    if (this.#isStopped || this.#carriedOut || this.#steps.size >= step.pipeline) return false
    if (!whatIf) return true
    if (whatIf.waitsForTransfers && this.#tiers.isMoving) return false
    for (const { hasEntered } of this.#steps.values()) if (!hasEntered) return false
    return true
  }

  #tick(): void {
    if (this.#alarmMs !== undefined && this.#alarmMs <= this.#nowMs) {
      this.#alarmMs = undefined
      this.#isDue = true
    }
    this.#passDeadlines()
    if (this.#isDue && this.#canBegin) this.#carryOut(this.#plan())
  }

  #plan(): ServingPlan {
    this.#planSpeeds = undefined
    return this.#options.policy.plan(this.#state, this.#nowMs)
  }

  #carryOut(plan: ServingPlan): void {
    for (const handle of plan.evict) this.#memory.evictCached(handle)
    let mayDiffer = false
    for (const id of plan.preempt) {
      const stream = this.#streams.get(id)
      if (stream) this.#preempt(stream)
      mayDiffer ||= stream?.place === 'evicted'
    }
    this.#carriedOut = { plan, resumed: 0, mayDiffer, starting: [], behind: [] }
    this.#resumeStreams()
  }

  #preempt(stream: ServedStream): void {
    if (stream.isInStep || stream.isClosing) return
    this.#tiers.evict(stream)
    this.#limitWait(stream)
  }

  #resumeStreams(): void {
    const carried = this.#carriedOut!
    const { resume } = carried.plan
    while (carried.resumed < resume.length) {
      const { stream: id, by } = resume[carried.resumed++]!
      const stream = this.#streams.get(id)
      if (!stream || stream.isClosing || stream.place !== 'evicted') continue
      if (stream.canRecompute && (by === 'recompute' || stream.contextLength === 0)) {
        this.#tiers.beginAnew(stream)
        stream.isFresh = true
        this.#emit({ kind: 'restart', stream: id })
        return
      }
      if (this.#tiers.load(stream) && stream.isAdmission) {
        this.#waitNoMore(stream)
        this.#emit({ kind: 'admitted', stream: id })
      }
    }
    this.#alarmMs = carried.plan.lookAgainAtMs
    this.#chooseStep()
  }

  #onFound(found: FoundRows): void {
    const stream = this.#demand(found.stream)
    if (stream.source === 'answer') {
      this.#beginWith(stream, found)
      if (stream.place === 'resident') this.#replaceRows()
      else {
        this.#tiers.restart(stream)
        this.#resumeStreams()
      }
    } else if (stream.place === 'resident' && this.#beginWithCopy(stream, found, stream.size.chargeOf(found.rows)))
      stream.reshape(found.rows, found.rows, 0)
  }

  /** An answer without rows begins with these. */
  #beginWith(stream: ServedStream, found: FoundRows): void {
    const { rows, cached } = found
    if (rows === 0) return
    if (cached && reuseOf(cached.rows, rows) === 'take' && this.#memory.takeCached(cached.handle, stream)) {
      this.#emit({ kind: 'take prefix', stream: stream.id, handle: cached.handle, rows })
      stream.findRows(rows)
    } else if (this.#beginWithCopy(stream, found, stream.neededBytes)) stream.findRows(rows)
  }

  #beginWithCopy(stream: ServedStream, { rows, cached }: FoundRows, bytes: number): boolean {
    if (!this.#memory.charge(stream, bytes)) return false
    // Charging may have evicted it.
    if (cached && !this.#memory.isCached(cached.handle)) return false
    this.#emit({ kind: 'copy prefix', stream: stream.id, rows })
    return true
  }

  #loseFound(stream: ServedStream): void {
    if (stream.canRecompute) stream.loseRows(0)
    else stream.reshape(0, 0, 0)
  }

  #chooseStep(): void {
    const carried = this.#carriedOut!
    // What has just begun to move may be waited for.
    if (this.#options.whatIf?.waitsForTransfers && this.#tiers.isMoving) {
      this.#endPlan(false)
      return
    }
    let hasFresh = false
    for (const { stream: id, rows } of carried.plan.run) {
      const stream = this.#streams.get(id)
      // A stream that was to be resumed is still evicted if another could not be preempted.
      if (stream?.canRun) {
        carried.starting.push({ stream, rows })
        hasFresh ||= stream.isFresh && stream.canRecompute
      } else {
        // It waited for its place alone, which it has now: the next plan has room for other rows.
        carried.mayDiffer ||= stream?.waitingRows === 0
      }
    }
    if (hasFresh && this.#options.sharesPrefixes)
      this.#emit({ kind: 'compare', pieces: carried.starting.map(({ stream, rows }) => ({ stream: stream.id, rows })) })
    else this.#beginStep()
  }

  #onCompared({ waiting, behind }: Extract<ServingInput, { kind: 'compared' }>): void {
    const carried = this.#carriedOut!
    if (waiting.length > 0) carried.starting = carried.starting.filter(({ stream }) => !waiting.includes(stream.id))
    carried.behind = behind
    this.#replaceRows()
  }

  /** Streams that have computed nothing yet begin with more rows. */
  #replaceRows(): void {
    const carried = this.#carriedOut!
    const [id, ...others] = carried.behind
    carried.behind = others
    if (id === undefined) {
      this.#beginStep()
      return
    }
    this.#tiers.beginAnew(this.#demand(id))
    this.#emit({ kind: 'restart', stream: id })
  }

  #beginStep(): void {
    const carried = this.#carriedOut!
    const pieces: StepPiece[] = []
    let stepRows = 0
    for (const { stream, rows: planned } of carried.starting) {
      if (!this.#reserve(stream)) {
        carried.mayDiffer ||= stream.place !== 'resident'
        continue
      }
      const { id, phase, waitingRows, contextLength, arrivedMs } = stream
      // It may have found some of its rows.
      const rows = Math.min(planned, waitingRows)
      if (phase !== 'prefill') this.#lastDecodeMs = this.#nowMs
      pieces.push({ stream: id, rows, phase, waitingRows, contextLength, arrivedMs })
      stepRows += rows
    }
    if (pieces.length > 0) {
      this.stepsBegun += 1
      for (const { stream: id } of pieces) {
        const stream = this.#demand(id)
        if (!stream.hasBegun) this.#answers.leave(id, stream.client, this.#nowMs)
        stream.enterStep()
      }
      this.#steps.set(this.stepsBegun, { pieces, hasEntered: false })
      this.#emit({ kind: 'begin', step: this.stepsBegun, pieces })
      this.#tiers.saveDuring(this.#speeds.secondsOf(stepRows) ?? 0)
    }
    this.#endPlan(pieces.length > 0)
  }

  /** @param hasBegun whether a step has */
  #endPlan(hasBegun: boolean): void {
    this.#isDue = hasBegun || this.#carriedOut!.mayDiffer
    this.#carriedOut = undefined
  }

  /**
   * Charges what the waiting rows need. An answer without memory for them is preempted, unless an eviction is about to free
   * some; a device's rows keep what they have, and wait. @returns whether the rows can run
   */
  #reserve(stream: ServedStream): boolean {
    if (this.#tiers.charge(stream)) return true
    if (stream.source === 'answer' && !this.#tiers.isEvicting) this.#preempt(stream)
    return false
  }

  #enterStep(id: number): void {
    const step = this.#steps.get(id)
    if (!step) return
    step.hasEntered = true
    this.#isDue = true
    if (!this.#options.whatIf?.pipelinedPrompts) return
    // The next rows of its prompts may follow.
    for (const { stream: id, rows, phase } of step.pieces) if (phase === 'prefill') this.#computed(this.#demand(id), rows)
  }

  #computed(stream: ServedStream, rows: number): void {
    stream.unblock()
    stream.compute(rows)
    if (stream.waitingRows === 0) this.#deadlines.delete(stream)
  }

  #endStep({ step: id, runs, failed, trees }: Extract<ServingInput, { kind: 'step ended' }>): void {
    const step = this.#steps.get(id)
    if (!step) throw new Error(`step ${id} is not under way`)
    this.#steps.delete(id)
    const { hasEntered } = step
    const pipelines = hasEntered && this.#options.whatIf?.pipelinedPrompts === true
    for (const run of runs) this.#speeds.record(run)
    for (const { stream: one, rows, phase } of step.pieces) {
      const stream = this.#demand(one)
      stream.stepsUnderWay -= 1
      if (failed.includes(one)) {
        stream.unblock()
        this.#waitNoMore(stream)
      } else if (!pipelines || phase !== 'prefill') this.#computed(stream, rows)
    }
    for (const { stream, line } of trees) this.#demand(stream).line = line
    for (const { stream: one } of step.pieces) {
      const stream = this.#demand(one)
      if (!stream.isClosing) this.#tiers.grown(stream)
      else if (!stream.isInStep) {
        this.#waitNoMore(stream)
        this.#settle(stream)
      }
    }
    this.#isDue = true
    // The rest of what the last steps computed in part.
    if (this.#isStopped) this.#rejectWaiting()
  }
}
