import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { repeatEvery } from '../../core/base/repeat.ts'
import { tryOrLog } from '../../core/base/try-or-log.ts'
import { clientToDisplace } from '../../core/policy/fairness/full-room.ts'
import { countByClient, ofLeastServed } from '../../core/policy/fairness/in-turns.ts'
import { Served } from '../../core/policy/fairness/served.ts'
import { isTerminal } from '../../core/policy/jobs/job.ts'
import { type DispatchRule, hasRoom, termsOf } from '../../core/policy/pice/dispatch-rules.ts'
import { FleetQueue, usualS } from '../../core/policy/pice/fleet-queue.ts'
import type { ExpandingDevice, FleetView, WaitingExpansion } from '../../core/policy/pice/state.ts'
import { sentencesOf } from '../../core/protocol/expansion.ts'
import { ExpandInput, maxInputBytes } from '../../core/protocol/jobs.ts'
import type { DeviceState } from '../../core/protocol/messages.ts'
import type { BridgeLimits } from '../limits.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'
import type { DeviceProfiles } from './device-profiles.ts'
import type { Expanded, Expander, ExpansionRequest } from './expander.ts'
import type { ExpandingDevices } from './expanding-devices.ts'
import { ExpansionJob, type JobOutcome } from './expansion-job.ts'
import type { ExpansionLog } from './expansion-log.ts'
import { type SubmissionLimits, submissionOf } from './expansion-submission.ts'
import { PendingExpansion } from './pending-expansion.ts'
import { ProfileRequests } from './profile-requests.ts'

/** Interval of the checks for deadlines and devices that can take expansions again. */
const tickMs = 100
/** What a job has beside its sketches, at most. */
const jsonBytes = 64
/** How long the bridge knows which job has expanded an answer. */
const logMs = 60 * 60_000

export interface SchedulerOptions {
  readonly queue: Pick<JobQueue, 'submit' | 'cancel' | 'watch'>
  readonly jobs: Pick<JobStore, 'events' | 'find' | 'loads' | 'isExhausted'>
  readonly devices: ExpandingDevices
  readonly profiles: DeviceProfiles
  readonly log: ExpansionLog
  readonly rule: DispatchRule
  /** Whether plans are expected, so that devices without a profile are asked for one before the first plan. */
  readonly expectsPlans: boolean
  readonly limits: SubmissionLimits &
    Pick<
      BridgeLimits,
      'answerGraceS' | 'expandedSentenceChars' | 'expansionDeviceWaitS' | 'expansionJobsPerDevice' | 'waitingExpansionsPerDevice'
    >
  readonly clock: Clock
  /** UTC ms: deadlines of jobs outlive this process. */
  readonly wallMs: () => number
  readonly logger: Logger
}

/** The devices that take expansions. */
interface AbleFleet {
  readonly able: readonly string[]
  /** Those whose speed is known, by name. */
  readonly known: ReadonlyMap<string, ExpandingDevice>
  readonly queue: FleetQueue
}

/** PICE's lists of expansions before the durable queue (Algorithm 1). */
export class Scheduler implements Expander {
  readonly #options: SchedulerOptions
  readonly #pending = new Set<PendingExpansion>()
  readonly #jobs = new Map<string, ExpansionJob>()
  readonly #watches = new Map<string, () => void>()
  /** Jobs that an earlier start of the bridge submitted, and whose answers may still come back. */
  readonly #orphans: Set<string>
  readonly #profileRequests: ProfileRequests
  /** Sketches that devices have taken. */
  readonly #served = new Served()
  readonly #startedMs: number
  readonly #stopTicking: () => Promise<void>
  /** Since when no device takes expansions. */
  #aloneSinceMs: number | undefined
  /** Whether a device without a profile is asked for one: a fleet that never sketches should not be measured. */
  #wantsProfiles: boolean
  #isScheduled = false
  #isClosed = false

  constructor(options: SchedulerOptions) {
    const { queue, jobs, log, expectsPlans, clock, wallMs, logger } = options
    this.#options = options
    this.#wantsProfiles = expectsPlans
    this.#profileRequests = new ProfileRequests(queue, clock)
    this.#startedMs = clock.nowMs()
    this.#aloneSinceMs = this.#startedMs
    log.deleteOlder(wallMs() - logMs)
    this.#orphans = new Set(
      log.jobs().filter((id) => {
        const job = jobs.find(id)
        return job !== undefined && !isTerminal(job.state)
      }),
    )
    this.#stopTicking = repeatEvery(clock, tickMs, () => tryOrLog(logger, 'expansions not checked', () => this.#tick()))
  }

  view(): FleetView {
    const nowMs = this.#options.clock.nowMs()
    const able = this.#able(nowMs)
    this.#wantsProfiles = true
    for (const device of able) this.#wantMissingProfile(device)
    return {
      devices: this.#measured(able, nowMs),
      waiting: this.#waiting().map((expansion) => waitingOf(expansion, nowMs)),
    }
  }

  async *expand(request: ExpansionRequest, signal: AbortSignal): AsyncGenerator<Expanded, void> {
    const pending = this.#begin(request)
    try {
      yield* pending.arrivals(signal)
    } finally {
      this.#pending.delete(pending)
      for (const job of this.#jobs.values()) job.detach(pending)
      if (!this.#isClosed) this.#cancelUseless()
    }
  }

  judge(model: string, confidence: number): void {
    tryOrLog(this.#options.logger, 'ability of a model not stored', () => this.#options.profiles.judge(model, confidence))
  }

  readonly onDeviceState = (device: string, state: DeviceState): void => {
    this.#options.devices.onState(device, state)
    if (this.#wantsProfiles) this.#wantMissingProfile(device)
    this.#onDevices()
  }

  readonly onBrokerLost = (): void => {
    this.#options.devices.clear()
    this.#onDevices()
  }

  /** The result of a `profile` job, of the bridge or of an operator. */
  onProfile(device: string, result: unknown): void {
    tryOrLog(this.#options.logger, 'profile not stored', () => this.#options.profiles.onProfile(device, result))
    this.#schedule()
  }

  /** Jobs that are out stay out: the answers find them at the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#stopTicking()
    for (const stop of this.#watches.values()) stop()
    for (const pending of this.#pending) pending.fail(closing())
  }

  /** @throws BrimError QUEUE_FULL, EXPANSION_FAILED, CANCELED */
  #begin(request: ExpansionRequest): PendingExpansion {
    const { log, clock } = this.#options
    if (this.#isClosed) throw closing()
    const pending = new PendingExpansion(request, clock.nowMs())
    if (bytesOf(pending) > maxInputBytes)
      throw new BrimError('EXPANSION_FAILED', `question and sketch take ${bytesOf(pending)} bytes, more than a job may have`)
    const places = log.placesOf(request.id)
    if (places.length === 0) {
      if (this.#isAlone()) throw noDevice()
      this.#takePlace(pending.client)
    }
    for (const other of this.#pending)
      if (other.id === request.id) other.fail(new BrimError('CANCELED', 'the answer was asked for again'))
    this.#pending.add(pending)
    for (const { job, sketch } of places) if (!pending.isComplete) this.#adopt(pending, job, sketch)
    this.#schedule()
    return pending
  }

  /** Takes what an earlier job has expanded of the sketch, and follows it if it is still out. */
  #adopt(pending: PendingExpansion, id: string, sketch: number): void {
    const known = this.#jobs.get(id)
    if (known) return void known.attach(pending, sketch)
    const { jobs, limits, clock } = this.#options
    this.#orphans.delete(id)
    const found = jobs.find(id)
    const input = ExpandInput.safeParse(found?.input).data
    if (found?.boundTo == null || !input || sketch >= input.sketches.length) return
    const startedMs = clock.nowMs()
    const maxChars = limits.expandedSentenceChars
    const job = new ExpansionJob({ id, device: found.boundTo, input, predictedS: 0, startedMs, maxChars }, jobs)
    job.attach(pending, sketch)
    if (isTerminal(found.state)) return void job.read()
    pending.attempts += 1
    pending.triedDevices.add(job.device)
    this.#follow(job)
  }

  #follow(job: ExpansionJob): void {
    const { queue, logger } = this.#options
    this.#jobs.set(job.id, job)
    const read = () => tryOrLog(logger, 'expansions not read', () => this.#read(job), { job: job.id })
    this.#watches.set(job.id, queue.watch(job.id, read))
    read()
  }

  #read(job: ExpansionJob): void {
    const { devices, clock } = this.#options
    const wasAccepted = job.isAccepted
    const outcome = job.read()
    if (job.isAccepted && !wasAccepted) devices.onAccepted(job.device, job.elapsedS(clock.nowMs()))
    if (outcome.kind !== 'open') this.#onEnd(job, outcome)
    this.#cancelUseless()
  }

  #onEnd(job: ExpansionJob, outcome: Exclude<JobOutcome, { kind: 'open' }>): void {
    const { queue, devices, profiles, clock, logger } = this.#options
    const { id, device, parts } = job
    this.#forget(job)
    // A device may send something else than it was asked for, or an oversized text.
    if (outcome.kind === 'succeeded' && parts.length === 0) {
      devices.onSuccess(device, outcome.runs.at(-1)?.model)
      if (!profiles.onRuns(device, outcome.runs)) this.#wantProfile(device)
    } else {
      // Where all its sentences are here, only its result was too large for a message.
      if (parts.length > 0) devices.onFailure(device, clock.nowMs())
      const { state, code } = outcome.kind === 'failed' ? outcome : { state: undefined, code: 'JOB_FAILED' }
      logger.info({ device, job: id, answers: parts.length, code }, 'expansion failed')
      if (state !== undefined && !isTerminal(state)) queue.cancel(id)
      if (job.size > 1 && (state === 'FAILED' || state === 'REJECTED')) for (const part of parts) part.isSuspect = true
    }
    this.#schedule()
  }

  #forget({ id }: ExpansionJob): void {
    this.#watches.get(id)?.()
    this.#watches.delete(id)
    this.#jobs.delete(id)
  }

  /** Ends jobs whose sentences no answer needs. */
  #cancelUseless(): void {
    for (const job of this.#jobs.values())
      if (job.isUseless) {
        this.#forget(job)
        tryOrLog(this.#options.logger, 'expansion not canceled', () => this.#options.queue.cancel(job.id), { job: job.id })
        this.#schedule()
      }
  }

  #tick(): void {
    const { limits, queue, clock } = this.#options
    const nowMs = clock.nowMs()
    for (const pending of this.#pending) if (nowMs >= pending.deadlineMs) this.#onLate(pending, nowMs)
    if (this.#isAlone()) for (const pending of this.#waiting()) pending.fail(noDevice())
    if (this.#orphans.size > 0 && nowMs - this.#startedMs >= 1_000 * limits.answerGraceS) {
      for (const id of this.#orphans) queue.cancel(id)
      this.#orphans.clear()
    }
    this.#cancelUseless()
    if (this.#pending.size > 0) this.#dispatch()
  }

  /** Its deadline has passed. A device that should have expanded it by now gets no other sketch at once. */
  #onLate(pending: PendingExpansion, nowMs: number): void {
    if (pending.hasEnded) return
    for (const job of this.#jobs.values())
      if (job.has(pending) && job.busyS(nowMs) === 0) this.#options.devices.onFailure(job.device, nowMs)
    pending.fail(tooLate())
  }

  #onDevices(): void {
    this.#aloneSinceMs = this.#options.devices.isEmpty ? (this.#aloneSinceMs ?? this.#options.clock.nowMs()) : undefined
    this.#schedule()
  }

  /** Whether there has been no device for so long that none is likely to come back in time. */
  #isAlone(): boolean {
    const { limits, clock } = this.#options
    return this.#aloneSinceMs !== undefined && clock.nowMs() - this.#aloneSinceMs >= 1_000 * limits.expansionDeviceWaitS
  }

  /** Another client with more sketches that wait gives up its latest for one of this client. @throws BrimError QUEUE_FULL */
  #takePlace(client: string): void {
    const { limits, devices, clock } = this.#options
    const waiting = this.#waiting()
    const idle = this.#idle(clock.nowMs()).length
    if (hasRoom(waiting.length, idle, devices.list().length, limits.waitingExpansionsPerDevice)) return
    const error = new BrimError(
      'QUEUE_FULL',
      `${waiting.length} sketches wait for devices, the maximum (limit waitingExpansionsPerDevice)`,
      { hint: 'the bridge answers in full' },
    )
    const other = clientToDisplace(countByClient(waiting), client)
    const latest = waiting.findLast((pending) => pending.client === other)
    if (!latest) throw error
    latest.fail(error)
  }

  /** Sketches that no device is expanding. */
  #waiting(): PendingExpansion[] {
    const active = new Set([...this.#jobs.values()].flatMap((job) => (this.#isActive(job) ? job.parts : [])))
    return [...this.#pending].filter((pending) => !pending.hasEnded && !active.has(pending))
  }

  /** Whether the job's device is there to expand; it may come back, but another one can begin now. */
  #isActive({ device, isDispatched }: ExpansionJob): boolean {
    const { devices } = this.#options
    return isDispatched ? devices.isPresent(device) : devices.takesJobs(device)
  }

  /** Devices that take expansions, now or once they have finished others. */
  #able(nowMs: number): string[] {
    const { devices, jobs, wallMs } = this.#options
    return devices.list().filter((device) => !devices.isResting(device, nowMs) && !jobs.isExhausted(device, wallMs()))
  }

  /** Those of the devices whose speed is known. */
  #measured(names: readonly string[], nowMs: number): ExpandingDevice[] {
    const { devices, profiles } = this.#options
    const busyS = this.#busyS(nowMs)
    return names.flatMap((device) => {
      const models = profiles.speedsOf(device)
      const [current, networkS] = [devices.currentOf(device), devices.networkSOf(device)]
      return models.length === 0 ? [] : [{ device, models, current, busyS: busyS.get(device) ?? 0, networkS }]
    })
  }

  /** Devices that take a job now, the fastest first. */
  #idle(nowMs: number): string[] {
    const { jobs, limits, profiles } = this.#options
    const held = jobs.loads('work')
    const own = new Map<string, number>()
    for (const { device } of this.#jobs.values()) own.set(device, (own.get(device) ?? 0) + 1)
    const loadOf = (device: string) => Math.max(held.get(device) ?? 0, own.get(device) ?? 0)
    const tpotS = (device: string) => profiles.speedsOf(device)[0]?.tpotS ?? Number.POSITIVE_INFINITY
    return this.#able(nowMs)
      .filter((device) => loadOf(device) < limits.expansionJobsPerDevice)
      .map((device) => ({ device, tpotS: tpotS(device) }))
      .sort((a, b) => (a.tpotS === b.tpotS ? 0 : a.tpotS - b.tpotS))
      .map(({ device }) => device)
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isClosed) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      if (!this.#isClosed) tryOrLog(this.#options.logger, 'expansions not dispatched', () => this.#dispatch())
    })
  }

  #dispatch(): void {
    const { limits, clock } = this.#options
    const nowMs = clock.nowMs()
    let waiting = this.#waiting()
    for (const pending of waiting) if (pending.attempts >= limits.expansionAttempts) pending.fail(spent(pending.attempts))
    const idle = waiting.length > 0 || this.#profileRequests.areWanted ? this.#idle(nowMs) : []
    /** Holds until a device takes something. */
    let fleet: AbleFleet | undefined
    for (const [at, device] of idle.entries()) {
      waiting = waiting.filter(({ hasEnded }) => !hasEnded)
      if (waiting.length > 0) fleet ??= this.#fleetFor(waiting, nowMs)
      const batch = fleet && waiting.length > 0 ? this.#batchInTurn(device, waiting, idle.length - at, fleet, nowMs) : []
      if (batch.length > 0) {
        this.#submit(device, batch, nowMs)
        fleet = undefined
      } else this.#profileRequests.onIdle(device)
      waiting = waiting.filter((pending) => !batch.includes(pending))
    }
  }

  #fleetFor(waiting: readonly PendingExpansion[], nowMs: number): AbleFleet {
    const able = this.#able(nowMs)
    const measured = this.#measured(able, nowMs)
    const known = new Map(measured.map((device) => [device.device, device]))
    return { able, known, queue: new FleetQueue(measured, termsOf(waiting.map(sketchOf))) }
  }

  /** Of the clients of which devices have taken the fewest sketches while they waited, unless this device is not for theirs. */
  #batchInTurn(device: string, waiting: readonly PendingExpansion[], ...rest: [number, AbleFleet, number]): PendingExpansion[] {
    const next = ofLeastServed(waiting, this.#served.ofThose(waiting))
    const batch = this.#batchFor(device, next, ...rest)
    return batch.length > 0 || next.length === waiting.length ? batch : this.#batchFor(device, waiting, ...rest)
  }

  #batchFor(
    device: string,
    waiting: readonly PendingExpansion[],
    idleDevices: number,
    { able, known, queue }: AbleFleet,
    nowMs: number,
  ): PendingExpansion[] {
    const { rule } = this.#options
    // One that failed at it, or vanished with it, only if there is no other.
    const eligible = waiting.filter(
      ({ triedDevices }) => !triedDevices.has(device) || able.every((other) => triedDevices.has(other)),
    )
    const suspect = eligible.find(({ isSuspect }) => isSuspect)
    if (suspect) return [suspect]
    let bytes = 0
    return rule(
      eligible.map((pending) => ({ ...waitingOf(pending, nowMs), pending })),
      { device: known.get(device), idleDevices, fleet: queue },
    ).flatMap(({ pending }) => {
      bytes += bytesOf(pending)
      return bytes <= maxInputBytes ? [pending] : []
    })
  }

  #submit(device: string, batch: readonly PendingExpansion[], nowMs: number): void {
    const { queue, jobs, limits, log, wallMs, logger } = this.#options
    try {
      const { input, submission } = submissionOf(device, batch, limits, nowMs)
      const id = queue.submit([submission])[0]!.id
      const ids = batch.map((pending) => pending.id)
      log.add(id, ids, wallMs())
      const terms = {
        predictedS: this.#predictedS(device, batch, nowMs),
        startedMs: nowMs,
        maxChars: limits.expandedSentenceChars,
      }
      const job = new ExpansionJob({ id, device, input, ...terms }, jobs)
      for (const [sketch, pending] of batch.entries()) {
        pending.attempts += 1
        pending.triedDevices.add(device)
        this.#served.add(pending.client, 1)
        job.attach(pending, sketch)
      }
      this.#follow(job)
    } catch (err) {
      logger.error({ device, err }, 'expansion not submitted')
      for (const pending of batch) pending.fail(new BrimError('EXPANSION_FAILED', 'the job could not be stored', { cause: err }))
    }
  }

  /** 0 for a device whose speed is unknown. */
  #predictedS(name: string, batch: readonly PendingExpansion[], nowMs: number): number {
    const [device] = this.#measured([name], nowMs)
    const tokens = batch.reduce((sum, { expectedTokens }) => sum + expectedTokens, 0)
    return device ? device.networkS + usualS(device, tokens, termsOf(batch.map(sketchOf))) : 0
  }

  /** By device: until it has finished what it was given. */
  #busyS(nowMs: number): ReadonlyMap<string, number> {
    const busyS = new Map<string, number>()
    for (const job of this.#jobs.values())
      if (this.#isActive(job)) busyS.set(job.device, (busyS.get(job.device) ?? 0) + job.busyS(nowMs))
    return busyS
  }

  #wantMissingProfile(device: string): void {
    if (!this.#options.profiles.hasProfile(device)) this.#wantProfile(device)
  }

  #wantProfile(device: string): void {
    if (!this.#options.devices.canProfile(device)) return
    this.#profileRequests.want(device)
    if (this.#profileRequests.areWanted) this.#schedule()
  }
}

function waitingOf({ id, expectedTokens, sinceMs, input }: PendingExpansion, nowMs: number): WaitingExpansion {
  const waitedS = (nowMs - sinceMs) / 1_000
  const { budgetMs } = input
  return { id, expectedTokens, waitedS, ...(budgetMs === undefined ? {} : { budgetS: budgetMs / 1_000 - waitedS }) }
}

const sketchOf = ({ expectedTokens, input }: PendingExpansion) => ({
  expectedTokens,
  sentences: sentencesOf(input).length,
  candidates: input.candidates,
})

const bytesOf = ({ input }: PendingExpansion) => Buffer.byteLength(JSON.stringify(input)) + jsonBytes

const closing = () => new BrimError('CANCELED', 'the bridge is closing')
const noDevice = () => new BrimError('EXPANSION_FAILED', 'no device that expands sketches is connected')
const tooLate = () => new BrimError('EXPANSION_FAILED', 'the deadline passed before the devices had expanded the sketch')
const spent = (attempts: number) => new BrimError('EXPANSION_FAILED', `${attempts} attempts at expanding the sketch failed`)
