import type { StateMonitor } from '../estimate/state-monitor.ts'
import { type HandlersOf, handleKind, type Machine, type OfKind } from '../machine.ts'
import type { KvMemory } from './kv-memory.ts'
import { KvTiers } from './kv-tiers.ts'
import { type ExecutedPlan, PlanExecution } from './plan-execution.ts'
import type { ServingState } from './policy.ts'
import type { ServedStream } from './served-stream.ts'
import { ServedStreams } from './served-streams.ts'
import type { FoundRows, ServingAction, ServingInput } from './serving-events.ts'
import type { ServingMachineOptions } from './serving-rules.ts'
import { ServingSteps } from './serving-steps.ts'
import { servingView } from './serving-view.ts'
import type { SlowTierPages } from './slow-tier-pages.ts'

/**
 * The serving loop: which streams hold memory, which of their rows are in a step, and which move between the tiers, as the
 * policy's plans say. Streams are numbers of rows here; their rows, buffers and pages are elsewhere.
 */
export class ServingMachine implements Machine<ServingInput, ServingAction> {
  readonly #options: ServingMachineOptions
  readonly #streams: ServedStreams
  readonly #tiers: KvTiers
  readonly #steps: ServingSteps
  readonly #execution: PlanExecution
  readonly #stateOfNewPlan: () => ServingState
  readonly #handlers: HandlersOf<ServingInput> = {
    tick: () => this.#tick(),
    'step entered': ({ step }) => this.#steps.enter(step),
    'step ended': (input) => this.#steps.end(input),
    rows: (input) => this.#streams.addRows(input),
    saved: ({ stream, outcome, seconds }) => this.#tiers.onSaved(this.#streams.demand(stream), outcome, seconds),
    loaded: ({ stream, outcome, seconds }) => this.#tiers.onLoaded(this.#streams.demand(stream), outcome, seconds),
    'copy dropped': () => this.#tiers.onCopyDropped(),
    'answer opened': (input) => this.#streams.openAnswer(input),
    'session opened': (input) => this.#streams.openSession(input),
    'session resumed': (input) => this.#streams.resumeSession(input),
    rate: ({ stream, tokensPerS }) => this.#streams.demand(stream).reader?.setRate(tokensPerS, this.#streams.nowMs),
    reported: (input) => this.#streams.report(input),
    reshaped: ({ stream, length, line, unmoved }) => this.#streams.demand(stream).reshape(length, line, unmoved),
    held: ({ stream, bytes }) => this.#streams.memory.hold(this.#streams.demand(stream), bytes),
    found: ({ stream, ...found }) => this.#onFound(this.#streams.demand(stream), found),
    'not found': ({ stream }) => this.#loseFound(this.#streams.demand(stream)),
    compared: ({ waiting, behind }) => this.#begin(this.#execution.onCompared(waiting, behind)),
    closing: ({ stream, ...closing }) => this.#close(this.#streams.demand(stream), closing),
    released: ({ stream }) => this.#streams.forget(stream, undefined),
    cached: ({ stream, handle }) => this.#streams.forget(stream, handle),
    'prefix dropped': ({ handle }) => this.#streams.memory.evictCached(handle),
    stop: () => this.#stop(),
  }
  /** When the last plan wants to be looked at again. */
  #alarmMs: number | undefined

  constructor(options: ServingMachineOptions) {
    const { waitsForTransfers = false, pipelinedPrompts = false } = options.whatIf ?? {}
    this.#options = options
    this.#streams = new ServedStreams(options)
    this.#tiers = new KvTiers(this.#streams, options.tiers)
    this.#steps = new ServingSteps(this.#streams, this.#tiers, pipelinedPrompts)
    this.#execution = new PlanExecution(this.#streams, this.#tiers, {
      sharesPrefixes: options.sharesPrefixes,
      waitsForTransfers,
    })
    this.#stateOfNewPlan = servingView(this.#streams, this.#tiers, this.#steps, options)
  }

  get memory(): Pick<KvMemory, 'budgetBytes' | 'usedBytes' | 'cachedBytes' | 'shortageOf'> {
    return this.#streams.memory
  }

  /** Since the start. */
  get transfers(): SlowTierPages['counts'] {
    return this.#tiers.pages.counts
  }

  /** The measured steps, as HAT's decisions read them. */
  get monitor(): StateMonitor {
    return this.#steps.speeds.monitor
  }

  get stepsBegun(): number {
    return this.#streams.stepsBegun
  }

  get waitingAnswers(): number {
    return this.#streams.answers.length
  }

  /** The stream as the machine has it. */
  get(id: number): Readonly<ServedStream> | undefined {
    return this.#streams.get(id)
  }

  /** The lowest number: as soon as nothing else happens at this time. */
  get wakeMs(): number | undefined {
    if (this.#streams.isDue && this.#canBegin) return Number.NEGATIVE_INFINITY
    const { nextMs } = this.#streams.waits
    return nextMs === undefined ? this.#alarmMs : Math.min(nextMs, this.#alarmMs ?? nextMs)
  }

  handle(input: ServingInput, nowMs: number): readonly ServingAction[] {
    this.#streams.nowMs = nowMs
    handleKind(this.#handlers, input)
    return this.#streams.actions.take()
  }

  get #canBegin(): boolean {
    const { step, whatIf } = this.#options
    if (this.#streams.isStopped || this.#execution.isUnderWay || this.#steps.underWay >= step.pipeline) return false
    if (!whatIf) return true
    return !(whatIf.waitsForTransfers && this.#tiers.isMoving) && this.#steps.isFirstStageFree
  }

  #tick(): void {
    const { nowMs, waits } = this.#streams
    if (this.#alarmMs !== undefined && this.#alarmMs <= nowMs) {
      this.#alarmMs = undefined
      this.#streams.isDue = true
    }
    waits.expire(nowMs, (stream) => this.#streams.fail(stream, 'memory'))
    if (this.#streams.isDue && this.#canBegin)
      this.#begin(this.#execution.begin(this.#options.policy.plan(this.#stateOfNewPlan(), nowMs)))
  }

  #begin(executed: ExecutedPlan): void {
    if (!executed) return
    const { pieces, mayDiffer, lookAgainAtMs } = executed
    this.#alarmMs = lookAgainAtMs
    if (pieces.length > 0) this.#steps.begin(pieces)
    this.#streams.isDue = mayDiffer || pieces.length > 0
  }

  #onFound(stream: ServedStream, found: FoundRows): void {
    if (stream.canRecompute) this.#begin(this.#execution.onFound(stream, found))
    else if (stream.isResident && this.#execution.beginWithCopy(stream, found, stream.size.chargeOf(found.rows)))
      stream.reshape(found.rows, found.rows, 0)
  }

  #loseFound(stream: ServedStream): void {
    if (stream.canRecompute) stream.loseRows(0)
    else stream.reshape(0, 0, 0)
  }

  #stop(): void {
    this.#streams.isStopped = true
    this.#alarmMs = undefined
    this.#streams.rejectWaiting()
  }

  #close(stream: ServedStream, { keep, leaves = false }: Pick<OfKind<ServingInput, 'closing'>, 'keep' | 'leaves'>): void {
    stream.stage = 'closing'
    stream.keptRows = keep
    stream.leavesPages = leaves
    this.#streams.leaveQueue(stream)
    if (!stream.isInStep) this.#streams.waitNoMore(stream)
    stream.queueAt = -1
    this.#tiers.settle(stream)
  }
}
