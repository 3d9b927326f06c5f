import type { SentencePlace } from '../../wire/protocol/expansion.ts'
import { clientToDisplace } from '../fairness/full-room.ts'
import { countByClient, ofLeastServed } from '../fairness/in-turns.ts'
import { ServedAmounts } from '../fairness/served.ts'
import { type Machine, PendingActions } from '../machine.ts'
import { type DispatchRule, hasRoom, termsOf } from './dispatch-rules.ts'
import { ExpandingFleet, type FleetDevice, type FleetSnapshot } from './expanding-fleet.ts'
import type { ExpansionAction, ExpansionFailure, ExpansionInput, QueueLimits } from './expansion-events.ts'
import { FleetQueue, usualS } from './fleet-queue.ts'
import { PendingSketch, SketchJob } from './pending-sketch.ts'
import type { FleetView, WaitingExpansion } from './state.ts'

/** Interval of looks at sketches that wait although a device is free: their age may change what it takes. */
const lookMs = 100
/** Minimum time between two requests for a profile to one device. */
export const profileEveryMs = 10 * 60_000

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

/** A sketch that waits, for the rules of dispatch. */
interface Waiting extends WaitingExpansion {
  readonly client: string
  readonly pending: PendingSketch
}

/** The fleet as a device takes its batch. */
interface DispatchFleet {
  readonly snapshot: FleetSnapshot
  readonly queue: FleetQueue
}

/**
 * PICE's lists of expansions before the durable queue (Algorithm 1): which device gets which sketches, when they are too late, what
 * follows from failures.
 */
export class ExpansionScheduler implements Machine<ExpansionInput, ExpansionAction> {
  readonly #rule: DispatchRule
  readonly #settings: ExpansionSettings
  readonly #fleet: ExpandingFleet
  /** In the order in which they came. */
  readonly #pending = new Map<string, PendingSketch>()
  readonly #jobs = new Map<string, SketchJob>()
  /** Sketches that devices have taken. */
  readonly #served = new ServedAmounts()
  readonly #wantedProfiles = new Set<FleetDevice>()
  readonly #profilesAskedMs = new Map<FleetDevice, number>()
  /** Whether a device without a profile is asked for one: a fleet that never sketches should not be measured. */
  #wantsProfiles: boolean
  /** Since when no device takes expansions. */
  #aloneSinceMs: number | undefined
  /** When devices are to be looked for. */
  #dueMs: number | undefined
  /** No deadline and no end of a grace time is earlier. */
  #nextEndMs = Number.POSITIVE_INFINITY
  #submitted = 0
  #waiting: readonly PendingSketch[] | undefined
  readonly #actions = new PendingActions<ExpansionAction>()

  constructor(rule: DispatchRule, settings: ExpansionSettings) {
    this.#rule = rule
    this.#settings = settings
    this.#fleet = new ExpandingFleet(settings.jobsPerDevice)
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
    const { devices } = this.#fleet.snapshot(nowMs)
    return { devices, waiting: this.#waitingOnes().map((pending) => expansionOf(pending, nowMs)) }
  }

  handle(input: ExpansionInput, nowMs: number): readonly ExpansionAction[] {
    this.#take(input, nowMs)
    return this.#actions.take()
  }

  #take(input: ExpansionInput, nowMs: number): void {
    const fleet = this.#fleet
    switch (input.kind) {
      case 'begin':
        this.#begin(input, nowMs)
        return
      case 'end': {
        const pending = this.#pending.get(input.id)
        if (pending) this.#remove(pending, nowMs)
        return
      }
      case 'plan':
        fleet.limit(input.held, input.exhausted)
        fleet.refresh(nowMs)
        this.#wantsProfiles = true
        for (const device of fleet.able) if (!device.speeds) this.#wantProfile(device, nowMs)
        return
      case 'presence': {
        const device = fleet.of(input.device)
        fleet.setPresence(device, input.presence ?? undefined)
        if (this.#wantsProfiles && !device.speeds) this.#wantProfile(device, nowMs)
        this.#onDevices(nowMs)
        return
      }
      case 'all-absent':
        for (const device of fleet.present) fleet.setPresence(device, undefined)
        this.#onDevices(nowMs)
        return
      case 'hints':
        fleet.hint(fleet.of(input.device), { current: input.current, networkS: input.networkS })
        return
      case 'measured':
        fleet.measured(fleet.of(input.device), input.speeds ?? undefined)
        this.#schedule(nowMs)
        return
      case 'outdated':
        this.#wantProfile(fleet.of(input.device), nowMs)
        return
      case 'ability': {
        const { confidence, sentences, ageMs } = input
        fleet.judged(input.model, { confidence, sentences, judgedMs: nowMs - ageMs })
        return
      }
      case 'adopt':
        this.#adopt(input, nowMs)
        return
      case 'tick':
        this.#tick(input, nowMs)
        return
      default: {
        const job = this.#jobs.get(input.job)
        if (job) this.#onJob(job, input, nowMs)
        return
      }
    }
  }

  #onJob(job: SketchJob, input: Extract<ExpansionInput, { readonly job: string }>, nowMs: number): void {
    switch (input.kind) {
      case 'sent':
      case 'requeued':
        job.isDispatched = input.kind === 'sent'
        this.#waiting = undefined
        this.#schedule(nowMs)
        return
      case 'accepted':
        if (!job.isAccepted) this.#fleet.accepted(job.options.device, job.elapsedS(nowMs))
        job.isAccepted = true
        return
      case 'sentence':
        this.#onSentence(job, input, nowMs)
        return
      case 'succeeded':
      case 'failed':
        this.#onJobEnd(job, input, nowMs)
        return
      case 'unsubmitted':
        this.#forget(job)
        for (const part of partsOf(job)) this.#fail(part, { reason: 'unsubmitted' }, nowMs)
        return
      default:
        throw new Error(`job ${input.job} is known already`)
    }
  }

  #begin({ places, ...asked }: Extract<ExpansionInput, { kind: 'begin' }>, nowMs: number): void {
    const { id, client, bytes } = asked
    const { maxJobBytes } = this.#settings
    this.#fleet.refresh(nowMs)
    if (bytes > maxJobBytes) return void this.#actions.push({ kind: 'fail', id, reason: 'too-large', bytes })
    if (!places && this.#isAlone(nowMs)) return void this.#actions.push({ kind: 'fail', id, reason: 'no-device' })
    if (!places && !this.#takePlace(id, client, nowMs)) return
    // It was asked for again: its jobs go on.
    const before = this.#pending.get(id)
    const former = [...(before?.jobs ?? [])]
    if (before) for (const job of former) job.detach(before)
    this.#pending.delete(id)
    const pending = new PendingSketch(asked, nowMs)
    for (const { job, sketch } of places ?? []) if (!pending.isComplete) this.#jobs.get(job)?.attach(pending, sketch)
    this.#waiting = undefined
    if (pending.isComplete) this.#actions.push({ kind: 'done', id })
    else this.#pending.set(id, pending)
    for (const job of former) this.#cancelUseless(job, nowMs)
    this.#nextEndMs = Math.min(this.#nextEndMs, pending.deadlineMs)
    this.#schedule(nowMs)
  }

  /** Another client with more sketches that wait gives up its latest for one of this client. @returns false: it is refused */
  #takePlace(id: string, client: string, nowMs: number): boolean {
    const waiting = this.#waitingOnes()
    const { free, size } = this.#fleet
    if (hasRoom(waiting.length, free.length, size, this.#settings.waitingPerDevice)) return true
    const full = { reason: 'queue-full', waiting: waiting.length } as const
    const other = clientToDisplace(countByClient(waiting), client)
    const latest = waiting.findLast((pending) => pending.client === other)
    if (latest) this.#fail(latest, full, nowMs)
    else this.#actions.push({ kind: 'fail', id, ...full })
    return latest !== undefined
  }

  #adopt(
    { job: id, device: name, size, expected, isDispatched, received }: Extract<ExpansionInput, { kind: 'adopt' }>,
    nowMs: number,
  ): void {
    const device = this.#fleet.of(name)
    const keptUntilMs = nowMs + this.#settings.graceMs
    const job = new SketchJob({ id, device, size, expected, predictedS: 0, startedMs: nowMs, keptUntilMs })
    job.isDispatched = isDispatched
    // When it was submitted is not known.
    job.isAccepted = true
    for (const { sketch, sentence, candidate } of received) job.received(sketch, sentence, candidate)
    this.#follow(job)
    this.#nextEndMs = Math.min(this.#nextEndMs, keptUntilMs)
  }

  #follow(job: SketchJob): void {
    this.#jobs.set(job.options.id, job)
    this.#fleet.addJob(job.options.device, job)
  }

  #forget(job: SketchJob): void {
    this.#jobs.delete(job.options.id)
    this.#fleet.removeJob(job.options.device, job)
    for (const part of partsOf(job)) part.jobs.delete(job)
    this.#waiting = undefined
  }

  #onSentence(job: SketchJob, { sketch, sentence, candidate }: SentencePlace, nowMs: number): void {
    job.received(sketch, sentence, candidate)
    // After a restart, a device may be heard before its presence.
    if (this.#aloneSinceMs !== undefined) this.#aloneSinceMs = nowMs
    const part = job.parts[sketch]
    if (!part?.take(sentence, candidate)) return
    const { id } = part.asked
    this.#actions.push({ kind: 'deliver', id, job: job.options.id, sketch, sentence, candidate })
    if (!part.isComplete) return
    this.#actions.push({ kind: 'done', id })
    this.#remove(part, nowMs)
  }

  #onJobEnd(job: SketchJob, end: Extract<ExpansionInput, { kind: 'succeeded' | 'failed' }>, nowMs: number): void {
    const { id, device, size } = job.options
    job.isOver = true
    if (end.kind === 'succeeded') for (const sentence of end.sentences) this.#onSentence(job, sentence, nowMs)
    const parts = partsOf(job)
    if (end.kind === 'succeeded' && parts.length === 0) {
      this.#fleet.succeeded(device, end.model)
      this.#actions.push({ kind: 'learn', job: id })
    } else {
      // A device may send something else than it was asked for. Where all its sentences are here, only its result was too large.
      if (parts.length > 0) this.#fleet.failed(device, nowMs)
      if (end.kind === 'failed') {
        if (!end.isOver) this.#actions.push({ kind: 'cancel', job: id })
        if (end.isRejected && size > 1) for (const part of parts) part.isSuspect = true
      }
    }
    this.#forget(job)
    this.#schedule(nowMs)
  }

  #fail(pending: PendingSketch, failure: ExpansionFailure, nowMs: number): void {
    this.#actions.push({ kind: 'fail', id: pending.asked.id, ...failure })
    this.#remove(pending, nowMs)
  }

  /** Nothing more is expanded for it. */
  #remove(pending: PendingSketch, nowMs: number): void {
    this.#pending.delete(pending.asked.id)
    this.#waiting = undefined
    for (const job of [...pending.jobs]) {
      job.detach(pending)
      this.#cancelUseless(job, nowMs)
    }
  }

  #cancelUseless(job: SketchJob, nowMs: number): void {
    if (!job.isUseless(nowMs)) return
    this.#forget(job)
    this.#actions.push({ kind: 'cancel', job: job.options.id })
    this.#schedule(nowMs)
  }

  #tick({ held, exhausted }: QueueLimits, nowMs: number): void {
    this.#fleet.limit(held, exhausted)
    this.#fleet.refresh(nowMs)
    if (nowMs >= this.#nextEndMs) this.#endInTime(nowMs)
    if (this.#isAlone(nowMs)) for (const pending of this.#waitingOnes()) this.#fail(pending, { reason: 'no-device' }, nowMs)
    this.#dueMs = undefined
    this.#dispatch(nowMs)
    this.#askForProfiles(nowMs)
  }

  /** Deadlines that have passed, and jobs whose answers have not come back. */
  #endInTime(nowMs: number): void {
    for (const pending of this.#pending.values()) if (nowMs >= pending.deadlineMs) this.#onLate(pending, nowMs)
    for (const job of this.#jobs.values()) this.#cancelUseless(job, nowMs)
    let nextMs = Number.POSITIVE_INFINITY
    for (const { deadlineMs } of this.#pending.values()) nextMs = Math.min(nextMs, deadlineMs)
    for (const { options } of this.#jobs.values()) if (options.keptUntilMs > nowMs) nextMs = Math.min(nextMs, options.keptUntilMs)
    this.#nextEndMs = nextMs
  }

  /** A device that should have expanded it by now gets no other sketch at once. */
  #onLate(pending: PendingSketch, nowMs: number): void {
    for (const job of pending.jobs) if (job.leftS(nowMs) === 0) this.#fleet.failed(job.options.device, nowMs)
    this.#fail(pending, { reason: 'late' }, nowMs)
  }

  #onDevices(nowMs: number): void {
    this.#aloneSinceMs = this.#fleet.size === 0 ? (this.#aloneSinceMs ?? nowMs) : undefined
    this.#waiting = undefined
    this.#schedule(nowMs)
  }

  /** Whether there has been no device for so long that none is likely to come back in time. */
  #isAlone(nowMs: number): boolean {
    return this.#aloneSinceMs !== undefined && nowMs - this.#aloneSinceMs >= this.#settings.deviceWaitMs
  }

  /** Sketches that no device is expanding. */
  #waitingOnes(): readonly PendingSketch[] {
    this.#waiting ??= [...this.#pending.values()].filter(({ isWaiting }) => isWaiting)
    return this.#waiting
  }

  #schedule(nowMs: number): void {
    if (this.#pending.size > 0 || this.#wantedProfiles.size > 0) this.#dueMs = Math.min(this.#dueMs ?? nowMs, nowMs)
  }

  #dispatch(nowMs: number): void {
    const { attempts } = this.#settings
    for (const pending of this.#waitingOnes())
      if (pending.attempts >= attempts) this.#fail(pending, { reason: 'attempts', attempts: pending.attempts }, nowMs)
    const waiting = this.#waitingOnes()
    if (waiting.length > 0) this.#giveOut(waiting, nowMs)
    if (this.#waitingOnes().length === 0) return
    const { free, restedMs = Number.POSITIVE_INFINITY } = this.#fleet
    const nextMs = free.length > 0 ? nowMs + lookMs : restedMs
    if (nextMs < Number.POSITIVE_INFINITY) this.#dueMs = Math.min(this.#dueMs ?? nextMs, nextMs)
  }

  /** @param pending all that waits */
  #giveOut(pending: readonly PendingSketch[], nowMs: number): void {
    // What a device takes removes it from those that are free.
    const free = [...this.#fleet.free]
    const mayDiffer = pending.some(({ tried }) => tried.size > 0)
    let waiting = pending.map((each): Waiting => ({ ...expansionOf(each, nowMs), client: each.client, pending: each }))
    /** Hold until a device takes something. */
    let state: DispatchFleet | undefined
    /** Devices that leave all that waits to others; those that are like them do so, too. */
    const unwilling = new Set<object>()
    for (const [at, device] of free.entries()) {
      if (waiting.length === 0) return
      const { alike } = device
      if (alike && unwilling.has(alike)) continue
      state ??= this.#stateFor(waiting, nowMs)
      const batch = this.#batchInTurn(device, waiting, free.length - at, state)
      if (batch.length === 0) {
        if (alike && !mayDiffer) unwilling.add(alike)
        continue
      }
      this.#submit(
        device,
        batch.map((each) => each.pending),
        nowMs,
      )
      const taken = new Set(batch)
      waiting = waiting.filter((each) => !taken.has(each))
      state = undefined
      unwilling.clear()
    }
  }

  #stateFor(waiting: readonly Waiting[], nowMs: number): DispatchFleet {
    const snapshot = this.#fleet.snapshot(nowMs)
    return { snapshot, queue: new FleetQueue(snapshot.devices, termsOf(waiting.map(({ pending }) => pending.shape))) }
  }

  /** Of the clients of which devices have taken the fewest sketches while they waited, unless this device is not for theirs. */
  #batchInTurn(device: FleetDevice, waiting: readonly Waiting[], idle: number, state: DispatchFleet): readonly Waiting[] {
    const next = ofLeastServed(waiting, this.#served.ofThose(waiting))
    const batch = this.#batchFor(device, next, idle, state)
    return batch.length > 0 || next.length === waiting.length ? batch : this.#batchFor(device, waiting, idle, state)
  }

  #batchFor(
    device: FleetDevice,
    waiting: readonly Waiting[],
    idleDevices: number,
    { snapshot, queue }: DispatchFleet,
  ): readonly Waiting[] {
    const eligible = waiting.filter(({ pending }) => this.#mayTake(device, pending))
    const suspect = eligible.find(({ pending }) => pending.isSuspect)
    if (suspect) return [suspect]
    let bytes = 0
    return this.#rule(eligible, { device: snapshot.entryOf(device), idleDevices, fleet: queue }).filter(({ pending }) => {
      bytes += pending.asked.bytes
      return bytes <= this.#settings.maxJobBytes
    })
  }

  /** A device that failed at it, or vanished with it, takes it only if there is no other. */
  #mayTake(device: FleetDevice, { tried }: PendingSketch): boolean {
    if (!tried.has(device)) return true
    for (const other of this.#fleet.able) if (!tried.has(other)) return false
    return true
  }

  #submit(device: FleetDevice, batch: readonly PendingSketch[], nowMs: number): void {
    this.#submitted += 1
    const job = new SketchJob({
      id: `${this.#submitted}`,
      device,
      size: batch.length,
      expected: batch.reduce((sum, { missing, asked }) => sum + missing.length * asked.candidates, 0),
      predictedS: predictedS(device, batch),
      startedMs: nowMs,
      keptUntilMs: nowMs,
    })
    for (const [sketch, pending] of batch.entries()) {
      job.attach(pending, sketch)
      this.#served.add(pending.client, 1)
    }
    this.#follow(job)
    this.#waiting = undefined
    this.#actions.push({
      kind: 'submit',
      job: job.options.id,
      device: device.name,
      sketches: batch.map(({ asked, missing }) => ({ id: asked.id, sentences: missing })),
      endsInMs: Math.max(...batch.map(({ deadlineMs }) => deadlineMs)) - nowMs,
    })
  }

  #wantProfile(device: FleetDevice, nowMs: number): void {
    if (!device.presence?.canProfile) return
    const askedMs = this.#profilesAskedMs.get(device) ?? Number.NEGATIVE_INFINITY
    if (nowMs - askedMs < profileEveryMs) return
    this.#wantedProfiles.add(device)
    this.#schedule(nowMs)
  }

  /** Devices that have nothing else to do. */
  #askForProfiles(nowMs: number): void {
    if (this.#wantedProfiles.size === 0) return
    const free = new Set(this.#fleet.free)
    for (const device of this.#wantedProfiles) {
      if (!free.has(device)) continue
      this.#wantedProfiles.delete(device)
      this.#profilesAskedMs.set(device, nowMs)
      this.#actions.push({ kind: 'profile', device: device.name })
    }
  }
}

const partsOf = ({ parts }: SketchJob): PendingSketch[] => parts.flatMap((part) => part ?? [])

/** 0 for a device whose speed is unknown. */
function predictedS({ known }: FleetDevice, batch: readonly PendingSketch[]): number {
  const tokens = batch.reduce((sum, { expectedTokens }) => sum + expectedTokens, 0)
  return known ? known.networkS + usualS(known, tokens, termsOf(batch.map(({ shape }) => shape))) : 0
}

function expansionOf({ asked, expectedTokens, sinceMs }: PendingSketch, nowMs: number): WaitingExpansion {
  const { id, budgetMs } = asked
  const waitedS = (nowMs - sinceMs) / 1_000
  return { id, expectedTokens, waitedS, ...(budgetMs === undefined ? {} : { budgetS: budgetMs / 1_000 - waitedS }) }
}
