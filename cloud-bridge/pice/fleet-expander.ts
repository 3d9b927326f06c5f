import { ArrivalQueue } from '../../core/kit/base/arrival-queue.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import { isTerminal } from '../../core/policy/jobs/job.ts'
import type { Machine } from '../../core/policy/machine.ts'
import type {
  ExpansionAction,
  ExpansionFailure,
  ExpansionInput,
  QueueLimits,
  SketchPlace,
} from '../../core/policy/pice/expansion-events.ts'
import { profileEveryMs } from '../../core/policy/pice/expansion-scheduler.ts'
import type { CandidatePlace } from '../../core/policy/pice/pending-sketch.ts'
import type { FleetView } from '../../core/policy/pice/state.ts'
import {
  ExpandedSentence,
  Expansion,
  requestedSentences,
  type SentencePlace,
  sentenceKey,
  sentencesOf,
} from '../../core/wire/protocol/expansion.ts'
import type { LatestTelemetry } from '../../core/wire/protocol/http/devices.ts'
import { JobSubmission, type SketchInput } from '../../core/wire/protocol/jobs.ts'
import type { BridgeLimits } from '../limits.ts'
import type { PresenceEvent } from '../presence/presence-feed.ts'
import type { JobChange } from '../queue/job-database.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'
import { hintsOf, presenceOf } from './device-hints.ts'
import type { DeviceProfiles } from './device-profiles.ts'
import type { Expanded, Expander, ExpansionRequest } from './expander.ts'
import { readStoredExpansion, type StoredExpansion } from './expansion-history.ts'
import type { ExpansionLog } from './expansion-log.ts'
import { submissionOf } from './expansion-submission.ts'

/** Interval of the checks for deadlines and devices that can take expansions again. */
const tickMs = 100
/** What a job has beside its sketches, at most. */
const jsonBytes = 64
/** How long the bridge knows which job has expanded an answer. */
const logMs = 60 * 60_000

export interface FleetExpanderOptions {
  readonly queue: Pick<JobQueue, 'submit' | 'cancel' | 'watch'>
  readonly jobs: Pick<JobStore, 'events' | 'find' | 'loads' | 'usage'>
  readonly scheduler: Machine<ExpansionInput, ExpansionAction>
  /** Of the scheduler. */
  readonly view: (nowMs: number) => FleetView
  readonly telemetryOf: (device: string) => LatestTelemetry | null
  readonly profiles: DeviceProfiles
  readonly log: ExpansionLog
  readonly limits: Pick<BridgeLimits, 'expansionAttempts'>
  readonly clock: Clock
  /** UTC ms: deadlines of jobs outlive this process. */
  readonly wallMs: () => number
  readonly logger: Logger
}

/** Text of one expanded sentence. */
const maxSentenceChars = 4_096

/** An answer that waits for its sentences. */
interface Reader {
  readonly request: ExpansionRequest
  readonly arrivals: ArrivalQueue<Expanded>
}

/** A job of the queue that expands sketches. */
interface QueuedExpansion {
  /** In the queue. */
  readonly id: string
  readonly device: string
  /** Of each sketch, for answers that ask again. */
  readonly sentences: ExpandedSentence[]
  /** What the device measured, once it has succeeded. */
  runs: Expansion['runs']
  stop(): void
}

/** Expands sketches on the fleet: does on the durable queue what the scheduler decides, and hands the sentences to the answers. */
export class FleetExpander implements Expander {
  readonly #options: FleetExpanderOptions
  readonly #readers = new Map<string, Reader>()
  /** By the scheduler's names. */
  readonly #jobs = new Map<string, QueuedExpansion>()
  readonly #stopTicking: () => Promise<void>
  #isScheduled = false
  #isClosed = false

  constructor(options: FleetExpanderOptions) {
    const { jobs, log, profiles, clock, wallMs } = options
    this.#options = options
    profiles.follow({
      onSpeeds: (device, speeds) => {
        this.#feedHints(device)
        this.#feed({ kind: 'measured', device, speeds: speeds ?? null })
      },
      onAbility: (model, { confidence, sentences }, ageMs) =>
        this.#feed({ kind: 'ability', model, confidence, sentences, ageMs }),
    })
    log.deleteOlder(wallMs() - logMs)
    for (const id of log.jobs()) {
      const job = jobs.find(id)
      if (job && !isTerminal(job.state)) this.#adopt(id)
    }
    this.#stopTicking = repeatEvery(clock, tickMs, () => this.#tick())
  }

  view(): FleetView {
    const { view, clock } = this.#options
    this.#feed({ kind: 'plan', ...this.#limits() })
    return view(clock.nowMs())
  }

  async *expand(request: ExpansionRequest, signal: AbortSignal): AsyncGenerator<Expanded, void> {
    const { id, client, input, deadlineMs } = request
    if (this.#isClosed) throw closing()
    const reader = { request, arrivals: new ArrivalQueue<Expanded>() }
    const { places, arrived } = this.#expandedBefore(request, reader.arrivals)
    this.#readers.get(id)?.arrivals.fail(new BrimError('CANCELED', 'the answer was asked for again'))
    this.#readers.set(id, reader)
    try {
      const { sketch, candidates, expectedTokens, budgetMs } = input
      const asked = { id, client: clientOf(client), candidates, arrived, expectedTokens, budgetMs, deadlineMs, places }
      this.#feed({ kind: 'begin', ...asked, lines: sketch.length, sentences: sentencesOf(input), bytes: bytesOf(input) })
      yield* reader.arrivals.read(signal)
    } finally {
      if (this.#readers.get(id) === reader) {
        this.#readers.delete(id)
        if (!this.#isClosed) this.#feed({ kind: 'end', id })
      }
    }
  }

  judge(model: string, confidence: number): void {
    tryOrLog(this.#options.logger, 'ability of a model not stored', () => this.#options.profiles.judge(model, confidence))
  }

  onPresence(event: PresenceEvent): void {
    if (event.kind === 'broker lost') this.#feed({ kind: 'all-absent' })
    else {
      const { device, state } = event
      this.#feedHints(device)
      this.#feed({ kind: 'presence', device, presence: presenceOf(state) })
    }
  }

  /** The result of a `profile` job, of the bridge or of an operator. */
  onProfile(device: string, result: unknown): void {
    tryOrLog(this.#options.logger, 'profile not stored', () => void this.#options.profiles.onProfile(device, result))
  }

  /** Jobs that are out stay out: the answers find them at the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#stopTicking()
    for (const { stop } of this.#jobs.values()) stop()
    for (const { arrivals } of this.#readers.values()) arrivals.fail(closing())
  }

  #feed(input: ExpansionInput): void {
    const { scheduler, clock, logger } = this.#options
    const actions = scheduler.handle(input, clock.nowMs())
    for (const action of actions) tryOrLog(logger, 'expansions not carried on', () => this.#run(action), { kind: action.kind })
    this.#schedule()
  }

  #run(action: ExpansionAction): void {
    const { queue, logger } = this.#options
    switch (action.kind) {
      case 'submit':
        this.#submit(action)
        return
      case 'cancel': {
        const job = this.#forget(action.job)
        if (job) queue.cancel(job.id)
        return
      }
      case 'deliver':
        this.#deliver(action)
        return
      case 'done':
        this.#readers.get(action.id)?.arrivals.done()
        return
      case 'fail':
        this.#readers.get(action.id)?.arrivals.fail(errorOf(action))
        return
      case 'learn':
        this.#learn(action.job)
        return
      case 'profile':
        queue.submit([profileOf(action.device)])
        return
      default:
        logger.error({ action: action satisfies never }, 'unknown action')
    }
  }

  #submit({ job, device, sketches, endsInMs }: Extract<ExpansionAction, { kind: 'submit' }>): void {
    const { queue, log, limits, wallMs, logger } = this.#options
    try {
      const input = {
        sketches: sketches.map(({ id, sentences }) => ({ ...this.#readers.get(id)!.request.input, sentences: [...sentences] })),
      }
      const id = queue.submit([submissionOf(device, input, endsInMs, limits.expansionAttempts)])[0]!.id
      log.add(
        id,
        sketches.map((sketch) => sketch.id),
        wallMs(),
      )
      this.#follow(job, id, device, [])
    } catch (err) {
      logger.error({ device, err }, 'expansion not submitted')
      this.#feed({ kind: 'unsubmitted', job })
    }
  }

  #follow(name: string, id: string, device: string, sentences: ExpandedSentence[]): void {
    const { queue, logger } = this.#options
    const onChange = (change: JobChange) =>
      tryOrLog(logger, 'expansion not followed', () => this.#onChange(name, change), { job: id })
    this.#jobs.set(name, { id, device, sentences, runs: [], stop: queue.watch(id, onChange) })
  }

  #forget(name: string): QueuedExpansion | undefined {
    const job = this.#jobs.get(name)
    job?.stop()
    this.#jobs.delete(name)
    return job
  }

  #onChange(name: string, { state, failures, error, data }: JobChange): void {
    const job = this.#jobs.get(name)!
    const { data: sentence } = ExpandedSentence.safeParse(data)
    if (state === 'SENT') this.#feed({ kind: 'sent', job: name })
    else if (state === 'ACCEPTED') this.#feed({ kind: 'accepted', job: name })
    else if (state === 'RUNNING' && sentence) this.#onSentence(name, job, sentence)
    else if (state === 'SUCCEEDED') this.#onSuccess(name, job, data)
    else if (state === 'QUEUED') {
      // An agent that was restarted goes on where it was; after other failures another device is the better choice.
      const { interrupted: _, ...others } = failures
      if (Object.keys(others).length === 0) this.#feed({ kind: 'requeued', job: name })
      else this.#onFailure(name, false, false, error?.code)
    } else if (isTerminal(state)) this.#onFailure(name, true, state === 'FAILED' || state === 'REJECTED', error?.code)
    if (isTerminal(state) && this.#jobs.get(name) === job) this.#forget(name)
  }

  #onSentence(job: string, { sentences }: QueuedExpansion, sentence: ExpandedSentence): void {
    if (!this.#isUsable(sentence)) return
    sentences.push(sentence)
    this.#feed({ kind: 'sentence', job, ...placeOf(sentence) })
  }

  #onSuccess(name: string, job: QueuedExpansion, data: unknown): void {
    const { data: result } = Expansion.safeParse(data)
    if (!result) return void this.#onFailure(name, true, false, 'JOB_FAILED')
    const sentences = result.sentences.filter((sentence) => this.#isUsable(sentence))
    job.sentences.push(...sentences)
    job.runs = result.runs
    this.#feed({ kind: 'succeeded', job: name, sentences: sentences.map(placeOf), model: result.runs.at(-1)?.model })
  }

  #deliver({ id, job: name, ...place }: Extract<ExpansionAction, { kind: 'deliver' }>): void {
    const { sentences, device } = this.#jobs.get(name)!
    const sentence = sentences.findLast((each) => sentenceKey(each) === sentenceKey(place))!
    this.#readers.get(id)?.arrivals.push(expandedOf(sentence, device))
  }

  /** An oversized text counts as missing. */
  #isUsable({ text }: ExpandedSentence): boolean {
    return text.length <= maxSentenceChars
  }

  #onFailure(job: string, isOver: boolean, isRejected: boolean, code: string | undefined): void {
    const { device, id } = this.#jobs.get(job)!
    this.#options.logger.info({ device, job: id, code }, 'expansion failed')
    this.#feed({ kind: 'failed', job, isOver, isRejected })
  }

  #learn(name: string): void {
    const { device, runs } = this.#jobs.get(name)!
    if (!this.#options.profiles.onRuns(device, runs)) this.#feed({ kind: 'outdated', device })
  }

  /** What earlier jobs have expanded of a sketch, which the answer gets at once, and where others go on with it. */
  #expandedBefore({ id, input }: ExpansionRequest, arrivals: ArrivalQueue<Expanded>) {
    const stored = this.#options.log.placesOf(id)
    const places: SketchPlace[] = []
    const arrived: CandidatePlace[] = []
    const missing = new Set(requestedSentences([input]).map(sentenceKey))
    for (const place of stored) {
      const [name, open] = [...this.#jobs].find(([, job]) => job.id === place.job) ?? []
      if (name !== undefined) places.push({ job: name, sketch: place.sketch })
      const { device = '', sentences = [] } = open ?? this.#stored(place.job) ?? {}
      for (const sentence of sentences)
        if (sentence.sketch === place.sketch && missing.delete(sentenceKey({ ...sentence, sketch: 0 }))) {
          arrived.push([sentence.sentence, sentence.candidate])
          arrivals.push(expandedOf(sentence, device))
        }
    }
    return { places: stored.length > 0 ? places : undefined, arrived }
  }

  /** Follows a job of an earlier start of the bridge, whose answers may come back. */
  #adopt(id: string): void {
    const stored = this.#stored(id)
    if (!stored) return
    const { device, input, isDispatched, sentences } = stored
    const expected = requestedSentences(input.sketches).length
    const size = input.sketches.length
    this.#follow(id, id, device, [...sentences])
    this.#feed({ kind: 'adopt', job: id, device, size, expected, isDispatched, received: sentences.map(placeOf) })
  }

  #stored(id: string): StoredExpansion | undefined {
    const stored = readStoredExpansion(id, this.#options.jobs)
    return stored && { ...stored, sentences: stored.sentences.filter((sentence) => this.#isUsable(sentence)) }
  }

  #feedHints(device: string): void {
    this.#feed({ kind: 'hints', device, ...hintsOf(this.#options.telemetryOf(device)) })
  }

  #limits(): QueueLimits {
    const { jobs, wallMs } = this.#options
    return { held: [...jobs.loads.of('work')], exhausted: jobs.usage.exhausted(wallMs()) }
  }

  #tick(): void {
    const { scheduler, logger } = this.#options
    if (scheduler.wakeMs === undefined) return
    tryOrLog(logger, 'expansions not checked', () => this.#feed({ kind: 'tick', ...this.#limits() }))
  }

  /** What happens in one turn of the event loop is dispatched together. */
  #schedule(): void {
    const { scheduler, clock } = this.#options
    if (this.#isScheduled || this.#isClosed || (scheduler.wakeMs ?? Number.POSITIVE_INFINITY) > clock.nowMs()) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      if (!this.#isClosed) this.#tick()
    })
  }
}

const profileOf = (device: string): JobSubmission =>
  JobSubmission.parse({ kind: 'profile', input: {}, device, deadlineS: profileEveryMs / 1_000, attempts: 2 })

const expandedOf = ({ sketch: _, ...sentence }: ExpandedSentence, device: string): Expanded => ({ ...sentence, device })

const placeOf = ({ sketch, sentence, candidate }: ExpandedSentence): SentencePlace => ({ sketch, sentence, candidate })

/** As a job has it, with all that is asked for. */
const bytesOf = (input: SketchInput) => Buffer.byteLength(JSON.stringify({ ...input, sentences: sentencesOf(input) })) + jsonBytes

const closing = () => new BrimError('CANCELED', 'the bridge is closing')

function errorOf(failure: ExpansionFailure): BrimError {
  switch (failure.reason) {
    case 'too-large':
      return failed(`question and sketch take ${failure.bytes} bytes, more than a job may have`)
    case 'queue-full':
      return new BrimError(
        'QUEUE_FULL',
        `${failure.waiting} sketches wait for devices, the maximum (limit waitingExpansionsPerDevice)`,
        { hint: 'the bridge answers in full' },
      )
    case 'attempts':
      return failed(`${failure.attempts} attempts at expanding the sketch failed`)
    case 'no-device':
      return failed('no device that expands sketches is connected')
    case 'late':
      return failed('the deadline passed before the devices had expanded the sketch')
    case 'unsubmitted':
      return failed('the job could not be stored')
    default:
      return failure satisfies never
  }
}

const failed = (message: string) => new BrimError('EXPANSION_FAILED', message)
