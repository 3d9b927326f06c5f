import { isTerminal, type JobState, terminalStates } from '../../core/policy/jobs/job.ts'
import { ExpandedSentence, Expansion, sentencesOf } from '../../core/protocol/expansion.ts'
import type { ExpandInput } from '../../core/protocol/jobs.ts'
import type { JobStore } from '../queue/job-store.ts'
import type { Expanded } from './expander.ts'
import type { PendingExpansion } from './pending-expansion.ts'

/** Lines of a job's history that are read at once. */
const maxLines = 256
/** Types of the last line of a history. */
const endTypes: ReadonlySet<string> = new Set(terminalStates.map((state) => state.toLowerCase()))

export type JobOutcome =
  | { readonly kind: 'open' }
  | { readonly kind: 'succeeded'; readonly runs: Expansion['runs'] }
  /** The job has ended, or its device has failed at it and would try again. */
  | { readonly kind: 'failed'; readonly state: JobState | undefined; readonly code: string }

export interface ExpansionJobOptions {
  readonly id: string
  readonly device: string
  readonly input: ExpandInput
  /** Time until the device has expanded everything. */
  readonly predictedS: number
  /** The clock's time. */
  readonly startedMs: number
  /** A longer text of a sentence does not count. */
  readonly maxChars: number
}

/** A job of the queue that expands sketches on one device. It hands what arrives to the answers. */
export class ExpansionJob {
  readonly id: string
  readonly device: string
  readonly #options: ExpansionJobOptions
  readonly #store: Pick<JobStore, 'events' | 'find'>
  /** The answer of each sketch; undefined: none waits for it. */
  readonly #parts: (PendingExpansion | undefined)[]
  readonly #expected: number
  readonly #received = new Set<string>()
  #seq = 0
  #isDispatched = false
  #isAccepted = false

  constructor(options: ExpansionJobOptions, store: Pick<JobStore, 'events' | 'find'>) {
    const { id, device, input } = options
    this.id = id
    this.device = device
    this.#options = options
    this.#store = store
    this.#parts = input.sketches.map(() => undefined)
    this.#expected = input.sketches.reduce((sum, asked) => sum + sentencesOf(asked).length * asked.candidates, 0)
  }

  /** Gives an answer what has been expanded of its sketch, and what will be. */
  attach(part: PendingExpansion, sketch: number): void {
    this.#parts[sketch] = part
    for (const { seq, type, data } of this.#lines(0)) if (seq <= this.#seq && type === 'sentence') this.#handLine(data)
  }

  detach(part: PendingExpansion): void {
    const at = this.#parts.indexOf(part)
    if (at >= 0) this.#parts[at] = undefined
  }

  has(part: PendingExpansion): boolean {
    return this.#parts.includes(part)
  }

  /** Answers that still lack something. */
  get parts(): PendingExpansion[] {
    return this.#parts.flatMap((part) => (part && !part.hasEnded ? [part] : []))
  }

  get size(): number {
    return this.#parts.length
  }

  /** Whether its device has it; otherwise it is queued for it. */
  get isDispatched(): boolean {
    return this.#isDispatched
  }

  /** Whether its device has accepted it, at any time. */
  get isAccepted(): boolean {
    return this.#isAccepted
  }

  /** Whether no answer needs the sentences that the device has not sent yet. */
  get isUseless(): boolean {
    return this.parts.length === 0 && this.#received.size < this.#expected
  }

  /** Since its submission. @param nowMs the clock's time */
  elapsedS(nowMs: number): number {
    return (nowMs - this.#options.startedMs) / 1_000
  }

  /** Predicted time until the device has expanded everything. @param nowMs the clock's time */
  busyS(nowMs: number): number {
    return Math.max(0, this.#options.predictedS - this.elapsedS(nowMs))
  }

  /** Hands on what is new in the job's history. */
  read(): JobOutcome {
    let state: string | undefined
    for (const { seq, type, data } of this.#lines(this.#seq)) {
      this.#seq = seq
      if (type === 'sentence') this.#handLine(data)
      else if (type === 'sent') this.#isDispatched = true
      else if (type === 'accepted') this.#isAccepted = true
      else if (type === 'queued' || endTypes.has(type)) {
        this.#isDispatched = false
        state = type
      }
    }
    if (state === undefined) return { kind: 'open' }
    const job = this.#store.find(this.id)
    const code = job?.error?.code ?? 'JOB_UNKNOWN'
    if (!job || isTerminal(job.state)) {
      const result = Expansion.safeParse(job?.result).data
      if (job?.state !== 'SUCCEEDED' || !result) return { kind: 'failed', state: job?.state, code }
      for (const sentence of result.sentences) this.#hand(sentence)
      return { kind: 'succeeded', runs: result.runs }
    }
    // An agent that was restarted goes on where it was; after other failures another device is the better choice.
    const { interrupted: _, ...others } = job.failures
    return Object.keys(others).length > 0 ? { kind: 'failed', state: job.state, code } : { kind: 'open' }
  }

  *#lines(after: number) {
    for (let seq = after; ; ) {
      const lines = this.#store.events(this.id, seq, maxLines)
      yield* lines
      if (lines.length < maxLines) return
      seq = lines.at(-1)!.seq
    }
  }

  #handLine(data: unknown): void {
    const read = ExpandedSentence.safeParse(data)
    if (read.success) this.#hand(read.data)
  }

  #hand({ sketch, ...sentence }: ExpandedSentence): void {
    if (sentence.text.length > this.#options.maxChars) return
    this.#received.add(`${sketch}/${sentence.sentence}/${sentence.candidate}`)
    const expanded: Expanded = { ...sentence, device: this.device }
    this.#parts[sketch]?.take(expanded)
  }
}
