import type { KvSize } from '../admission/kv.ts'
import type { StateMonitor } from '../estimate/state-monitor.ts'
import { type Machine, PendingActions } from '../machine.ts'
import { AnswerQueue } from './answer-queue.ts'
import { KvMemory, type KvMemoryLimits } from './kv-memory.ts'
import { KvTiers, type TierOptions } from './kv-tiers.ts'
import { MemoryWaits } from './memory-waits.ts'
import { PlanExecution } from './plan-execution.ts'
import type { ServingPolicy, ServingSpeeds, ServingState, StreamState } from './policy.ts'
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
  readonly #waits: MemoryWaits
  readonly #execution: PlanExecution
  readonly #actions = new PendingActions<ServingAction>()
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
    const { maxMemoryWaitMs, sharesPrefixes, policy, whatIf } = options
    const { waitsForTransfers = false, waitsForMemory = false } = whatIf ?? {}
    this.#waits = new MemoryWaits(this.#memory, { maxMemoryWaitMs, waitsForMemory, heedsReaders: policy.heedsReaders ?? false })
    this.#execution = new PlanExecution(
      this.#tiers,
      { sharesPrefixes, waitsForTransfers },
      {
        get: (id) => this.#streams.get(id),
        emit: (action) => this.#emit(action),
        preempt: (stream) => this.#preempt(stream),
        admit: (session) => this.#admit(session),
        onEnd: (pieces, mayDiffer, lookAgainAtMs) => this.#endPlan(pieces, mayDiffer, lookAgainAtMs),
      },
    )
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
    const { nextMs } = this.#waits
    return nextMs === undefined ? this.#alarmMs : Math.min(nextMs, this.#alarmMs ?? nextMs)
  }

  handle(input: ServingInput, nowMs: number): readonly ServingAction[] {
    this.#nowMs = nowMs
    this.#take(input)
    return this.#actions.take()
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
        this.#memory.hold(this.#demand(input.stream), input.bytes)
        break
      case 'found':
        this.#onFound(input)
        break
      case 'not found':
        this.#loseFound(this.#demand(input.stream))
        break
      case 'compared':
        this.#execution.onCompared(input.waiting, input.behind)
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
      this.#admit(stream)
      return
    }
    stream.wait(positions, 'prefill', this.#nowMs)
    if (!this.#waits.couldEnd(stream, this.#streams.values())) this.#fail(stream, 'memory')
    else {
      this.#waits.begin(stream, this.#nowMs)
      this.#enqueue(stream)
    }
  }

  #admit(session: ServedStream): void {
    if (session.waitingRows > 0) this.#waitNoMore(session)
    session.isNew = false
    session.place = 'resident'
    this.#emit({ kind: 'admitted', stream: session.id })
  }

  #resumeSession(input: Extract<ServingInput, { kind: 'session resumed' }>): void {
    const stream = this.#add(input, 'device')
    if (!this.#memory.takeCached(input.handle, stream)) throw new Error('a session resumes what is not cached')
    stream.isNew = false
    stream.place = 'resident'
    stream.reshape(input.rows, input.rows, 0)
  }

  #openAnswer(input: Extract<ServingInput, { kind: 'answer opened' }>): void {
    const { stream: id, client, tokensPerS, rows, following } = input
    const entry = this.#answers.enter(client, this.#nowMs)
    if (entry.kind === 'refused') {
      this.#emit({ kind: 'refused', stream: id, full: entry.full })
      return
    }
    if (entry.kind === 'displaced') {
      const displaced = this.#latestAnswer(entry.client)
      displaced.isNew = false
      this.#waitNoMore(displaced)
      this.#emit({ kind: 'displaced', stream: displaced.id, full: entry.full })
    }
    // The last token becomes no row.
    const stream = this.#add(input, 'answer', new Reader(tokensPerS, following + 1, this.#nowMs))
    stream.followingRows = following
    stream.wait(rows, 'prefill', this.#nowMs)
    if (this.#isStopped) this.#fail(stream, 'stopped')
    else this.#enqueue(stream)
  }

  /** Of those that wait for their first step. */
  #latestAnswer(client: string): ServedStream {
    let latest: ServedStream | undefined
    for (const stream of this.#streams.values())
      if (stream.isNew && stream.source === 'answer' && stream.client === client) latest = stream
    if (!latest) throw new Error('the queue counts an answer that is not there')
    return latest
  }

  /** An answer no longer waits for its first step. */
  #leaveQueue(stream: ServedStream): void {
    if (stream.isNew && stream.source === 'answer') this.#answers.leave(stream.client, this.#nowMs)
    stream.isNew = false
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
    const { isResident } = stream
    if (isResident && this.#tiers.charge(stream)) return true
    const mayWait = isResident ? this.#waits.couldEnd(stream, this.#streams.values()) : this.#memory.canHold(stream.neededBytes)
    if (mayWait) this.#waits.begin(stream, this.#nowMs)
    return mayWait
  }

  #enqueue(stream: ServedStream): void {
    this.#waiting.add(stream)
    this.#isDue = true
  }

  #waitNoMore(stream: ServedStream): void {
    stream.queueAt = -1
    stream.waitNoMore()
    this.#waits.end(stream)
    this.#isDue = true
  }

  #fail(stream: ServedStream, why: FailureReason): void {
    const length = stream.contextLength + stream.waitingRows
    this.#waitNoMore(stream)
    this.#emit({ kind: 'fail', stream: stream.id, why, length })
  }

  #rejectWaiting(): void {
    for (const stream of [...this.#waiting.compact()]) if (!stream.isInStep) this.#fail(stream, 'stopped')
  }

  #close(stream: ServedStream, keep: number | undefined): void {
    stream.stage = 'closing'
    stream.keptRows = keep
    this.#leaveQueue(stream)
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
    if (this.#isStopped || this.#execution.isUnderWay || this.#steps.size >= step.pipeline) return false
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
    this.#waits.expire(this.#nowMs, (stream) => this.#fail(stream, 'memory'))
    if (!this.#isDue || !this.#canBegin) return
    this.#planSpeeds = undefined
    this.#execution.begin(this.#options.policy.plan(this.#state, this.#nowMs))
  }

  #preempt(stream: ServedStream): void {
    if (stream.isInStep || stream.isClosing) return
    this.#tiers.evict(stream)
    this.#waits.begin(stream, this.#nowMs)
  }

  #onFound(found: FoundRows): void {
    const stream = this.#demand(found.stream)
    if (stream.canRecompute) this.#execution.onFound(stream, found)
    else if (stream.isResident && this.#execution.beginWithCopy(stream, found, stream.size.chargeOf(found.rows)))
      stream.reshape(found.rows, found.rows, 0)
  }

  #loseFound(stream: ServedStream): void {
    if (stream.canRecompute) stream.loseRows(0)
    else stream.reshape(0, 0, 0)
  }

  #endPlan(pieces: readonly StepPiece[], mayDiffer: boolean, lookAgainAtMs: number | undefined): void {
    this.#alarmMs = lookAgainAtMs
    if (pieces.length > 0) this.#beginStep(pieces)
    this.#isDue = mayDiffer || pieces.length > 0
  }

  #beginStep(pieces: readonly StepPiece[]): void {
    this.stepsBegun += 1
    let stepRows = 0
    for (const { stream: id, rows, phase } of pieces) {
      const stream = this.#demand(id)
      this.#leaveQueue(stream)
      stream.enterStep()
      stepRows += rows
      if (phase !== 'prefill') this.#lastDecodeMs = this.#nowMs
    }
    this.#steps.set(this.stepsBegun, { pieces, hasEntered: false })
    this.#emit({ kind: 'begin', step: this.stepsBegun, pieces })
    this.#tiers.saveDuring(this.#speeds.secondsOf(stepRows) ?? 0)
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
    if (stream.waitingRows === 0) this.#waits.end(stream)
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
