import type { SentencePlace } from '../../wire/protocol/expansion.ts'
import { clientToDisplace } from '../fairness/full-room.ts'
import { countByClient } from '../fairness/in-turns.ts'
import { type HandlersOf, handleKind, type Machine, type OfKind, PendingActions } from '../machine.ts'
import { type DispatchRule, hasRoom } from './dispatch-rules.ts'
import { ExpandingFleet } from './expanding-fleet.ts'
import type { ExpansionAction, ExpansionFailure, ExpansionInput, QueueLimits } from './expansion-events.ts'
import type { FleetDevice } from './fleet-device.ts'
import { PendingSketch, type SketchJob } from './pending-sketch.ts'
import { expansionOf, type SketchBatch, SketchBatches } from './sketch-batches.ts'
import { SketchJobs } from './sketch-jobs.ts'
import type { FleetView } from './state.ts'
import { WantedProfiles } from './wanted-profiles.ts'

/** Interval of looks at sketches that wait although a device is free: their age may change what it takes. */
const lookMs = 100
/** Time in which a device accepts a job: 8 to 60 ms were measured on links that are not slow. */
const minAcceptMs = 1_000
const maxAcceptMs = 5_000
export interface ExpansionSettings {
  /** Jobs that a device may hold for it to get sketches. */
  readonly jobsPerDevice: number
  /** Sketches that may wait for each device. */
  readonly waitingPerDevice: number
  /** Jobs that a sketch may be part of. */
  readonly attempts: number
  /** Bytes of the sketches of one job. */
  readonly maxJobBytes: number
  /** Without any device, sketches fail after this time. */
  readonly deviceWaitMs: number
  /** Jobs of an earlier start of the bridge are kept for this long: their answers may come back. */
  readonly graceMs: number
  /** Whether plans are expected, so that devices without a profile are asked for one before the first plan. */
  readonly expectsPlans: boolean
  /** No device is there before. */
  readonly startedMs: number
}

/** With what the rule of dispatch is made of. */
export interface RecordedExpansionSettings extends ExpansionSettings {
  readonly policy: 'dynamic' | 'static'
  readonly expansionsPerJob: number
}

/**
 * PICE's lists of expansions before the durable queue (Algorithm 1): which device gets which sketches, when they are too late, what
 * follows from failures.
 */
export class ExpansionScheduler implements Machine<ExpansionInput, ExpansionAction> {
  readonly #settings: ExpansionSettings
  readonly #fleet: ExpandingFleet
  readonly #batches: SketchBatches
  /** In the order in which they came. */
  readonly #pending = new Map<string, PendingSketch>()
  readonly #jobs: SketchJobs
  readonly #wantedProfiles = new WantedProfiles()
  /** Whether a device without a profile is asked for one: a fleet that never sketches should not be measured. */
  #wantsProfiles: boolean
  /** Since when no device takes expansions. */
  #aloneSinceMs: number | undefined
  /** When devices are to be looked for. */
  #dueMs: number | undefined
  /** No deadline and no end of a grace time is earlier. */
  #nextEndMs = Number.POSITIVE_INFINITY
  #waiting: readonly PendingSketch[] | undefined
  readonly #actions = new PendingActions<ExpansionAction>()
  /** Of the present input. */
  #nowMs = 0
  readonly #handlers: HandlersOf<ExpansionInput> = {
    begin: (input) => this.#begin(input),
    end: ({ id }) => this.#end(id),
    plan: (limits) => this.#onPlan(limits),
    presence: ({ device, presence }) => this.#onPresence(this.#fleet.of(device), presence ?? undefined),
    'all-absent': () => this.#onAllAbsent(),
    hints: ({ device, current, networkS }) => this.#fleet.hint(this.#fleet.of(device), { current, networkS }),
    measured: ({ device, speeds }) => this.#onMeasured(this.#fleet.of(device), speeds ?? undefined),
    outdated: ({ device }) => this.#wantProfile(this.#fleet.of(device)),
    ability: ({ device, model, confidence, sentences, ageMs }) =>
      this.#fleet.judged(device, model, { confidence, sentences, judgedMs: this.#nowMs - ageMs }),
    adopt: (input) => this.#adopt(input),
    sent: this.#ofJob((job) => this.#onDispatched(job, true)),
    requeued: this.#ofJob((job) => this.#onDispatched(job, false)),
    accepted: this.#ofJob((job) => this.#onAccepted(job)),
    sentence: this.#ofJob((job, sentence: SentencePlace) => this.#onSentence(job, sentence)),
    succeeded: this.#ofJob((job, end: OfKind<ExpansionInput, 'succeeded'>) => this.#onJobEnd(job, end)),
    failed: this.#ofJob((job, end: OfKind<ExpansionInput, 'failed'>) => this.#onJobEnd(job, end)),
    unsubmitted: this.#ofJob((job) => this.#onUnsubmitted(job)),
    tick: (limits) => this.#tick(limits),
  }

  constructor(rule: DispatchRule, settings: ExpansionSettings) {
    this.#settings = settings
    this.#fleet = new ExpandingFleet(settings.jobsPerDevice)
    this.#jobs = new SketchJobs(this.#fleet)
    this.#batches = new SketchBatches(rule, this.#fleet.able, settings.maxJobBytes)
    this.#wantsProfiles = settings.expectsPlans
    this.#aloneSinceMs = settings.startedMs
  }

  get wakeMs(): number | undefined {
    const isAlone = this.#aloneSinceMs !== undefined && this.#waitingOnes().length > 0
    const aloneMs = isAlone ? this.#aloneSinceMs! + this.#settings.deviceWaitMs : Number.POSITIVE_INFINITY
    const wakeMs = Math.min(this.#dueMs ?? Number.POSITIVE_INFINITY, this.#nextEndMs, aloneMs)
    return wakeMs === Number.POSITIVE_INFINITY ? undefined : wakeMs
  }

  /** What a plan needs to know. */
  view(nowMs: number): FleetView {
    this.#fleet.refresh(nowMs)
    const { devices } = this.#fleet.able.snapshot(nowMs)
    const waiting = this.#waitingOnes().map((pending) => expansionOf(pending, nowMs))
    const { unmeasured } = this.#fleet.able
    return { devices, waiting, ...(unmeasured > 0 && { unmeasured }) }
  }

  handle(input: ExpansionInput, nowMs: number): readonly ExpansionAction[] {
    this.#nowMs = nowMs
    handleKind(this.#handlers, input)
    return this.#actions.take()
  }

  /** Without effect for a job that has ended. */
  #ofJob<Input>(handle: (job: SketchJob, input: Input) => void): (input: Input & { readonly job: string }) => void {
    return (input) => {
      const job = this.#jobs.get(input.job)
      if (job) handle(job, input)
    }
  }

  #end(id: string): void {
    const pending = this.#pending.get(id)
    if (pending) this.#remove(pending)
  }

  #onPlan(limits: QueueLimits): void {
    this.#fleet.limit(limits)
    this.#fleet.refresh(this.#nowMs)
    this.#wantsProfiles = true
    for (const device of this.#fleet.able.all) if (!device.speeds) this.#wantProfile(device)
  }

  #onPresence(device: FleetDevice, presence: FleetDevice['presence']): void {
    this.#fleet.setPresence(device, presence)
    if (this.#wantsProfiles && !device.speeds) this.#wantProfile(device)
    this.#onDevices()
  }

  #onAllAbsent(): void {
    for (const device of this.#fleet.present) this.#fleet.setPresence(device, undefined)
    this.#onDevices()
  }

  #onMeasured(device: FleetDevice, speeds: FleetDevice['speeds']): void {
    this.#fleet.measured(device, speeds)
    this.#schedule()
  }

  #onDispatched(job: SketchJob, isDispatched: boolean): void {
    job.isDispatched = isDispatched
    job.wasRequeued ||= !isDispatched
    this.#waiting = undefined
    this.#schedule()
  }

  #onAccepted(job: SketchJob): void {
    // After an outage it says nothing about the link.
    if (!job.isAccepted && !job.wasRequeued) this.#fleet.accepted(job.options.device, job.elapsedS(this.#nowMs))
    job.isAccepted = true
  }

  #onUnsubmitted(job: SketchJob): void {
    this.#forget(job)
    for (const part of job.waitingParts) this.#fail(part, { reason: 'unsubmitted' })
  }

  #begin({ places, ...asked }: OfKind<ExpansionInput, 'begin'>): void {
    const { id, client, bytes } = asked
    const { maxJobBytes } = this.#settings
    this.#fleet.refresh(this.#nowMs)
    if (bytes > maxJobBytes) return void this.#actions.push({ kind: 'fail', id, reason: 'too-large', bytes })
    if (!places && this.#isAlone()) return void this.#actions.push({ kind: 'fail', id, reason: 'no-device' })
    if (!places && !this.#takePlace(id, client)) return
    // It was asked for again: its jobs go on.
    const before = this.#pending.get(id)
    const former = [...(before?.jobs ?? [])]
    if (before) for (const job of former) job.detach(before)
    this.#pending.delete(id)
    const pending = new PendingSketch(asked, this.#nowMs)
    for (const { job, sketch } of places ?? []) if (!pending.isComplete) this.#jobs.get(job)?.attach(pending, sketch)
    this.#waiting = undefined
    if (pending.isComplete) this.#actions.push({ kind: 'done', id })
    else this.#pending.set(id, pending)
    for (const job of former) this.#cancelUseless(job)
    this.#nextEndMs = Math.min(this.#nextEndMs, pending.deadlineMs)
    this.#schedule()
  }

  /** Another client with more sketches that wait gives up its latest for one of this client. @returns false: it is refused */
  #takePlace(id: string, client: string): boolean {
    const waiting = this.#waitingOnes()
    const { able, size } = this.#fleet
    if (hasRoom(waiting.length, able.free.length, size, this.#settings.waitingPerDevice)) return true
    const full = { reason: 'queue-full', waiting: waiting.length } as const
    const other = clientToDisplace(countByClient(waiting), client)
    const latest = waiting.findLast((pending) => pending.client === other)
    if (latest) this.#fail(latest, full)
    else this.#actions.push({ kind: 'fail', id, ...full })
    return latest !== undefined
  }

  #adopt({ job: id, device, size, expected, isDispatched, received }: OfKind<ExpansionInput, 'adopt'>): void {
    const keptUntilMs = this.#nowMs + this.#settings.graceMs
    const options = { id, device: this.#fleet.of(device), size, expected, keptUntilMs }
    const job = this.#jobs.adopt(options, isDispatched, this.#nowMs)
    for (const { sketch, sentence, candidate } of received) job.received(sketch, sentence, candidate)
    this.#nextEndMs = Math.min(this.#nextEndMs, keptUntilMs)
  }

  #forget(job: SketchJob): void {
    this.#jobs.remove(job)
    this.#waiting = undefined
  }

  #onSentence(job: SketchJob, { sketch, sentence, candidate }: SentencePlace): void {
    job.received(sketch, sentence, candidate)
    if (job.isOverdue) this.#fleet.returned(job.options.device)
    // After a restart, a device may be heard before its presence.
    if (this.#aloneSinceMs !== undefined) this.#aloneSinceMs = this.#nowMs
    const part = job.parts[sketch]
    if (!part?.take(sentence, candidate)) return
    const { id } = part.asked
    this.#actions.push({ kind: 'deliver', id, job: job.options.id, sketch, sentence, candidate })
    if (!part.isComplete) return
    this.#actions.push({ kind: 'done', id })
    this.#remove(part)
  }

  #onJobEnd(job: SketchJob, end: OfKind<ExpansionInput, 'succeeded' | 'failed'>): void {
    const { id, device, size } = job.options
    job.isOver = true
    if (end.kind === 'succeeded') for (const sentence of end.sentences) this.#onSentence(job, sentence)
    const parts = job.waitingParts
    if (end.kind === 'succeeded' && parts.length === 0) {
      this.#fleet.succeeded(device, end.model)
      this.#actions.push({ kind: 'learn', job: id })
    } else {
      // A device may send something else than it was asked for. Where all its sentences are here, only its result was too large.
      const isSilent = end.kind === 'failed' && !end.isRejected && !job.isAccepted
      if (parts.length > 0) this.#fleet.failed(device, this.#nowMs, isSilent ? 'silent' : 'failed')
      if (end.kind === 'failed') {
        this.#learnOverrun(job)
        if (!end.isOver) this.#actions.push({ kind: 'cancel', job: id })
        if (end.isRejected && size > 1) for (const part of parts) part.isSuspect = true
      }
    }
    this.#forget(job)
    this.#schedule()
  }

  #fail(pending: PendingSketch, failure: ExpansionFailure): void {
    this.#actions.push({ kind: 'fail', id: pending.asked.id, ...failure })
    this.#remove(pending)
  }

  /** Nothing more is expanded for it. */
  #remove(pending: PendingSketch): void {
    this.#pending.delete(pending.asked.id)
    this.#waiting = undefined
    for (const job of [...pending.jobs]) {
      job.detach(pending)
      this.#cancelUseless(job)
    }
  }

  #cancelUseless(job: SketchJob): void {
    if (!job.isUseless(this.#nowMs)) return
    this.#learnOverrun(job)
    this.#forget(job)
    this.#actions.push({ kind: 'cancel', job: job.options.id })
    this.#schedule()
  }

  /** Otherwise only successes would correct a device's speed: the slowest jobs are those that do not end in time. */
  #learnOverrun(job: SketchJob): void {
    const { device, model } = job.options
    const overrun = job.overrun(this.#nowMs)
    if (overrun > 1 && model !== undefined) this.#actions.push({ kind: 'exceeded', device: device.name, model, overrun })
  }

  #tick(limits: QueueLimits): void {
    this.#fleet.limit(limits)
    this.#fleet.refresh(this.#nowMs)
    if (this.#nowMs >= this.#nextEndMs) this.#endInTime()
    if (this.#isAlone()) for (const pending of this.#waitingOnes()) this.#fail(pending, { reason: 'no-device' })
    this.#dueMs = undefined
    this.#dispatch()
    for (const { name } of this.#wantedProfiles.take(this.#fleet.able.free, this.#nowMs))
      this.#actions.push({ kind: 'profile', device: name })
  }

  /** Deadlines that have passed, and jobs whose answers have not come back. */
  #endInTime(): void {
    for (const pending of this.#pending.values()) if (this.#nowMs >= pending.deadlineMs) this.#onLate(pending)
    for (const job of this.#jobs.all()) if (this.#nowMs >= job.options.overdueMs && !job.isOverdue) this.#onOverdue(job)
    for (const job of this.#jobs.all()) this.#cancelUseless(job)
    this.#nextEndMs = this.#jobs.nextEndMs(this.#nowMs)
    for (const { deadlineMs } of this.#pending.values()) this.#nextEndMs = Math.min(this.#nextEndMs, deadlineMs)
  }

  /** What is missing waits for another device, while this one may still send it. */
  #onOverdue(job: SketchJob): void {
    job.isOverdue = true
    this.#waiting = undefined
    // It is able again once the job has ended, and it has rested.
    this.#fleet.failed(job.options.device, this.#nowMs, 'silent')
    this.#schedule()
  }

  /** A device that should have expanded it by now gets no other sketch at once. */
  #onLate(pending: PendingSketch): void {
    for (const job of pending.jobs)
      if (job.leftS(this.#nowMs) === 0 && !job.isOverdue) this.#fleet.failed(job.options.device, this.#nowMs)
    this.#fail(pending, { reason: 'late' })
  }

  #onDevices(): void {
    this.#aloneSinceMs = this.#fleet.size === 0 ? (this.#aloneSinceMs ?? this.#nowMs) : undefined
    this.#waiting = undefined
    this.#schedule()
  }

  /** Whether there has been no device for so long that none is likely to come back in time. */
  #isAlone(): boolean {
    return this.#aloneSinceMs !== undefined && this.#nowMs - this.#aloneSinceMs >= this.#settings.deviceWaitMs
  }

  /** Sketches that no device is expanding. */
  #waitingOnes(): readonly PendingSketch[] {
    this.#waiting ??= [...this.#pending.values()].filter(({ isWaiting }) => isWaiting)
    return this.#waiting
  }

  #schedule(): void {
    if (this.#pending.size > 0 || !this.#wantedProfiles.isEmpty) this.#dueMs = Math.min(this.#dueMs ?? this.#nowMs, this.#nowMs)
  }

  #dispatch(): void {
    const { attempts } = this.#settings
    for (const pending of this.#waitingOnes())
      if (pending.attempts >= attempts) this.#fail(pending, { reason: 'attempts', attempts: pending.attempts })
    const waiting = this.#waitingOnes()
    if (waiting.length > 0) for (const batch of this.#batches.ofAll(waiting, this.#nowMs)) this.#submit(batch)
    if (this.#waitingOnes().length === 0) return
    const { able, restedMs = Number.POSITIVE_INFINITY } = this.#fleet
    const nextMs = able.free.length > 0 ? this.#nowMs + lookMs : restedMs
    if (nextMs < Number.POSITIVE_INFINITY) this.#dueMs = Math.min(this.#dueMs ?? nextMs, nextMs)
  }

  #submit(batch: SketchBatch): void {
    const { device, sketches } = batch
    const job = this.#jobs.begin(batch, this.#nowMs)
    this.#waiting = undefined
    this.#nextEndMs = Math.min(this.#nextEndMs, job.options.overdueMs)
    this.#actions.push({
      kind: 'submit',
      job: job.options.id,
      device: device.name,
      sketches: sketches.map(({ asked, missing }) => ({ id: asked.id, sentences: missing })),
      endsInMs: Math.max(...sketches.map(({ deadlineMs }) => deadlineMs)) - this.#nowMs,
      acceptMs: acceptMs(device),
    })
  }

  #wantProfile(device: FleetDevice): void {
    this.#wantedProfiles.add(device, this.#nowMs)
    this.#schedule()
  }
}

/** A slow link needs longer for a sketch and the answer to it. */
const acceptMs = ({ known, hints }: FleetDevice): number =>
  Math.min(maxAcceptMs, Math.max(minAcceptMs, 4_000 * (known ?? hints).networkS))
