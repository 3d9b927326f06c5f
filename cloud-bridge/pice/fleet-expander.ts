import { ArrivalQueue } from '../../core/kit/base/arrival-queue.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { oncePerTurn } from '../../core/kit/base/once-per-turn.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import { type HandlersOf, handleKind, type Machine } from '../../core/policy/machine.ts'
import type { ExpansionAction, ExpansionFailure, ExpansionInput, QueueLimits } from '../../core/policy/pice/expansion-events.ts'
import type { FleetView } from '../../core/policy/pice/state.ts'
import { profileEveryMs } from '../../core/policy/pice/wanted-profiles.ts'
import { sentencesOf } from '../../core/wire/protocol/expansion.ts'
import type { LatestTelemetry } from '../../core/wire/protocol/http/devices.ts'
import { JobSubmission, type SketchInput } from '../../core/wire/protocol/jobs.ts'
import type { PresenceEvent } from '../presence/presence-feed.ts'
import type { JobStore } from '../queue/job-store.ts'
import { hintsOf, presenceOf } from './device-hints.ts'
import type { DeviceProfiles } from './device-profiles.ts'
import type { Expanded, Expander, ExpansionRequest } from './expander.ts'
import { ExpansionJobs, type ExpansionJobsOptions } from './expansion-jobs.ts'

/** Interval of the checks for deadlines and devices that can take expansions again. */
const tickMs = 100
/** What a job has beside its sketches, at most. */
const jsonBytes = 64

export interface FleetExpanderOptions extends ExpansionJobsOptions {
  readonly jobs: Pick<JobStore, 'events' | 'find' | 'loads' | 'usage'>
  readonly scheduler: Machine<ExpansionInput, ExpansionAction>
  /** Of the scheduler. */
  readonly view: (nowMs: number) => FleetView
  readonly telemetryOf: (device: string) => LatestTelemetry | null
  readonly profiles: DeviceProfiles
  readonly clock: Clock
}

/** An answer that waits for its sentences. */
interface Reader {
  readonly request: ExpansionRequest
  readonly arrivals: ArrivalQueue<Expanded>
}

/** Expands sketches on the fleet: does on the durable queue what the scheduler decides, and hands the sentences to the answers. */
export class FleetExpander implements Expander {
  readonly #options: FleetExpanderOptions
  readonly #readers = new Map<string, Reader>()
  readonly #jobs: ExpansionJobs
  readonly #stopTicking: () => Promise<void>
  #isClosed = false
  readonly #runners: HandlersOf<ExpansionAction> = {
    submit: (action) => this.#jobs.submit(action, (id) => this.#readers.get(id)!.request.input),
    cancel: ({ job }) => this.#jobs.cancel(job),
    deliver: ({ id, job, ...place }) => this.#readers.get(id)?.arrivals.push(this.#jobs.expandedAt(job, place)),
    done: ({ id }) => this.#readers.get(id)?.arrivals.done(),
    fail: (action) => this.#readers.get(action.id)?.arrivals.fail(errorOf(action)),
    learn: ({ job }) => this.#learn(job),
    exceeded: ({ device, model, overrun }) => this.#options.profiles.onExceeded(device, model, overrun),
    profile: ({ device }) => void this.#options.queue.submit([profileOf(device)]),
  }

  constructor(options: FleetExpanderOptions) {
    const { profiles, clock } = options
    this.#options = options
    this.#jobs = new ExpansionJobs(options, (input) => this.#feed(input))
    profiles.follow({
      onSpeeds: (device, speeds) => {
        this.#feedHints(device)
        this.#feed({ kind: 'measured', device, speeds: speeds ?? null })
      },
      onAbility: (device, model, { confidence, sentences }, ageMs) =>
        this.#feed({ kind: 'ability', device, model, confidence, sentences, ageMs }),
    })
    this.#jobs.adoptAll()
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
    const { places, arrived } = this.#jobs.expandedBefore(request, reader.arrivals)
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

  judge(device: string, model: string, confidence: number): void {
    const { profiles, logger } = this.#options
    tryOrLog(logger, 'ability of a model not stored', () => profiles.judge(device, model, confidence))
  }

  onPresence(event: PresenceEvent): void {
    if (event.kind === 'broker lost') this.#feed({ kind: 'all-absent' })
    else {
      const { device, state, isUnproven = false } = event
      this.#feedHints(device)
      // A durable job may wait for such a device; a reader should not.
      this.#feed({ kind: 'presence', device, presence: isUnproven ? null : presenceOf(state) })
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
    this.#jobs.close()
    for (const { arrivals } of this.#readers.values()) arrivals.fail(closing())
  }

  #feed(input: ExpansionInput): void {
    const { scheduler, clock, logger } = this.#options
    const actions = scheduler.handle(input, clock.nowMs())
    for (const action of actions)
      tryOrLog(logger, 'expansions not carried on', () => handleKind(this.#runners, action), { kind: action.kind })
    this.#schedule()
  }

  #learn(name: string): void {
    const { device, runs } = this.#jobs.demand(name)
    if (!this.#options.profiles.onRuns(device, runs)) this.#feed({ kind: 'outdated', device })
  }

  #feedHints(device: string): void {
    this.#feed({ kind: 'hints', device, ...hintsOf(this.#options.telemetryOf(device)) })
  }

  #limits(): QueueLimits {
    const { jobs, wallMs } = this.#options
    return { held: [...jobs.loads.of('work')], exhausted: jobs.usage.exhausted(wallMs()) }
  }

  readonly #tickSoon = oncePerTurn(() => {
    if (!this.#isClosed) this.#tick()
  })

  #tick(): void {
    const { scheduler, logger } = this.#options
    if (scheduler.wakeMs === undefined) return
    tryOrLog(logger, 'expansions not checked', () => this.#feed({ kind: 'tick', ...this.#limits() }))
  }

  #schedule(): void {
    const { scheduler, clock } = this.#options
    if ((scheduler.wakeMs ?? Number.POSITIVE_INFINITY) <= clock.nowMs()) this.#tickSoon()
  }
}

const profileOf = (device: string): JobSubmission =>
  JobSubmission.parse({ kind: 'profile', input: {}, device, deadlineS: profileEveryMs / 1_000, attempts: 2 })

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
    default:
      return failed(whyNot[failure.reason])
  }
}

const whyNot = {
  'no-device': 'no device that expands sketches is connected',
  late: 'the deadline passed before the devices had expanded the sketch',
  unsubmitted: 'the job could not be stored',
}

const failed = (message: string) => new BrimError('EXPANSION_FAILED', message)
