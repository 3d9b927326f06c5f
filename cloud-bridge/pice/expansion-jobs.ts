import type { ArrivalQueue } from '../../core/kit/base/arrival-queue.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { isTerminal } from '../../core/policy/jobs/job.ts'
import type { OfKind } from '../../core/policy/machine.ts'
import type { ExpansionAction, ExpansionInput, SketchPlace } from '../../core/policy/pice/expansion-events.ts'
import type { CandidatePlace } from '../../core/policy/pice/pending-sketch.ts'
import {
  ExpandedSentence,
  Expansion,
  requestedSentences,
  type SentencePlace,
  sentenceKey,
} from '../../core/wire/protocol/expansion.ts'
import type { SketchInput } from '../../core/wire/protocol/jobs.ts'
import type { BridgeLimits } from '../limits.ts'
import type { JobChange } from '../queue/job-database.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'
import type { Expanded, ExpansionRequest } from './expander.ts'
import { readStoredExpansion, type StoredExpansion } from './expansion-history.ts'
import type { ExpansionLog } from './expansion-log.ts'
import { submissionOf } from './expansion-submission.ts'

/** How long the bridge knows which job has expanded an answer. */
const logMs = 60 * 60_000
/** Text of one expanded sentence. */
const maxSentenceChars = 4_096

export interface ExpansionJobsOptions {
  readonly queue: Pick<JobQueue, 'submit' | 'cancel' | 'watch'>
  readonly jobs: Pick<JobStore, 'events' | 'find'>
  readonly log: ExpansionLog
  readonly limits: Pick<BridgeLimits, 'expansionAttempts'>
  /** UTC ms: deadlines of jobs outlive this process. */
  readonly wallMs: () => number
  readonly logger: Logger
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

/** The jobs of the durable queue that expand sketches, by the scheduler's names: what becomes of them are its inputs. */
export class ExpansionJobs {
  readonly #options: ExpansionJobsOptions
  readonly #feed: (input: ExpansionInput) => void
  readonly #jobs = new Map<string, QueuedExpansion>()

  constructor(options: ExpansionJobsOptions, feed: (input: ExpansionInput) => void) {
    this.#options = options
    this.#feed = feed
  }

  demand(name: string): QueuedExpansion {
    return this.#jobs.get(name)!
  }

  /** What has just arrived there. */
  expandedAt(name: string, place: SentencePlace): Expanded {
    const { sentences, device } = this.demand(name)
    return expandedOf(sentences.findLast((each) => sentenceKey(each) === sentenceKey(place))!, device)
  }

  /** Follows the jobs of an earlier start of the bridge, whose answers may come back. */
  adoptAll(): void {
    const { jobs, log, wallMs } = this.#options
    log.deleteOlder(wallMs() - logMs)
    for (const id of log.jobs()) {
      const job = jobs.find(id)
      if (job && !isTerminal(job.state)) this.#adopt(id)
    }
  }

  /** @param inputOf the question and the sketch of an answer */
  submit(action: OfKind<ExpansionAction, 'submit'>, inputOf: (id: string) => SketchInput): void {
    const { job, device, sketches } = action
    const { queue, log, limits, wallMs, logger } = this.#options
    try {
      const input = { sketches: sketches.map(({ id, sentences }) => ({ ...inputOf(id), sentences: [...sentences] })) }
      const id = queue.submit([submissionOf(action, input, limits.expansionAttempts)])[0]!.id
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

  cancel(name: string): void {
    const job = this.#forget(name)
    if (job) this.#options.queue.cancel(job.id)
  }

  /** Jobs that are out stay out: the answers find them at the next start. */
  close(): void {
    for (const { stop } of this.#jobs.values()) stop()
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

  /** What earlier jobs have expanded of a sketch, which the answer gets at once, and where others go on with it. */
  expandedBefore({ id, input }: ExpansionRequest, arrivals: ArrivalQueue<Expanded>) {
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

  /** An oversized text counts as missing. */
  #isUsable({ text }: ExpandedSentence): boolean {
    return text.length <= maxSentenceChars
  }

  #onFailure(job: string, isOver: boolean, isRejected: boolean, code: string | undefined): void {
    const { device, id } = this.#jobs.get(job)!
    this.#options.logger.info({ device, job: id, code }, 'expansion failed')
    this.#feed({ kind: 'failed', job, isOver, isRejected })
  }
}

const expandedOf = ({ sketch: _, ...sentence }: ExpandedSentence, device: string): Expanded => ({ ...sentence, device })

const placeOf = ({ sketch, sentence, candidate }: ExpandedSentence): SentencePlace => ({ sketch, sentence, candidate })
