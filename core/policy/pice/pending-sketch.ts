import type { DeviceJob, FleetDevice } from './fleet-device.ts'

/** No sketch has as many lines, no sentence as many candidates. */
const maxLines = 2 ** 16
const maxCandidates = 2 ** 5

/** Of text, about. */
export const bytesPerToken = 4

export type CandidatePlace = readonly [sentence: number, candidate: number]

/** An answer's sketch that devices are to expand, without its text. */
export interface AskedSketch {
  readonly id: string
  readonly client: string
  readonly lines: number
  /** Indices of the lines to expand, and expansions of each. */
  readonly sentences: readonly number[]
  readonly candidates: number
  /** Those that have arrived before. */
  readonly arrived: readonly CandidatePlace[]
  /** l, in tokens of the LLM. */
  readonly expectedTokens: number
  /** What is left of f(l); absent: unlimited. */
  readonly budgetMs?: number | undefined
  /** For the expansion, from now on. */
  readonly deadlineMs: number
  /** Of question and sketch in a job. */
  readonly bytes: number
}

/** One answer's sketch: which candidates of which sentences are missing. Mutable. */
export class PendingSketch {
  readonly asked: AskedSketch
  readonly sinceMs: number
  readonly deadlineMs: number
  /** Devices that have been given the sketch. */
  readonly tried = new Set<FleetDevice>()
  /** That expand it. */
  readonly jobs = new Set<SketchJob>()
  /** Number of jobs that it has been part of. */
  attempts = 0
  /** A device rejected a batch with it: the other sketches of the batch may be fine. */
  isSuspect = false
  /** By sentence: a bit for each candidate that is missing. */
  readonly #missing: Map<number, number>

  constructor(asked: AskedSketch, nowMs: number) {
    this.asked = asked
    this.sinceMs = nowMs
    this.deadlineMs = nowMs + asked.deadlineMs
    const all = 2 ** asked.candidates - 1
    this.#missing = new Map(asked.sentences.map((sentence) => [sentence, all]))
    for (const place of asked.arrived) this.take(...place)
  }

  get client(): string {
    return this.asked.client
  }

  get isComplete(): boolean {
    return this.#missing.size === 0
  }

  /** Sentences that lack a candidate, ascending. */
  get missing(): number[] {
    return [...this.#missing.keys()]
  }

  /** Predicted length of what is missing, in tokens of the LLM. */
  get expectedTokens(): number {
    const { expectedTokens, lines } = this.asked
    return Math.max(1, Math.round((expectedTokens * this.#missing.size) / lines))
  }

  /** As far as the terms of a batch depend on it. */
  get shape() {
    const { candidates, bytes } = this.asked
    return { expectedTokens: this.expectedTokens, sentences: this.#missing.size, candidates, promptTokens: bytes / bytesPerToken }
  }

  /** Whether no device is expanding it within the time that it should take. */
  get isWaiting(): boolean {
    for (const job of this.jobs) if (job.isActive && !job.isOverdue) return false
    return true
  }

  /** @returns false: it was there already */
  take(sentence: number, candidate: number): boolean {
    const missing = this.#missing.get(sentence) ?? 0
    const left = missing & ~(1 << candidate)
    if (left === missing) return false
    if (left === 0) this.#missing.delete(sentence)
    else this.#missing.set(sentence, left)
    return true
  }
}

export interface SketchJobOptions {
  readonly id: string
  readonly device: FleetDevice
  readonly size: number
  /** Candidates that are requested. */
  readonly expected: number
  /** Time until the device has expanded everything. */
  readonly predictedS: number
  /** With which model; undefined: no time is predicted. */
  readonly model?: string | undefined
  /** Time until the device begins with it. */
  readonly busyS: number
  readonly startedMs: number
  /** After this, another device is given what is missing; Infinity: never. */
  readonly overdueMs: number
  /** It is kept until then, although no answer may need it. */
  readonly keptUntilMs: number
}

/** A job that expands sketches on one device. Mutable. */
export class SketchJob implements DeviceJob {
  readonly options: SketchJobOptions
  /** The answer of each sketch; undefined: none waits for it. */
  readonly parts: (PendingSketch | undefined)[]
  /** Whether its device has it; otherwise it is queued for it. */
  isDispatched = false
  /** Whether it went back to the queue: its device was away. */
  wasRequeued = false
  /** Whether its device has accepted it, at any time. */
  isAccepted = false
  /** It has taken so much longer than predicted that others are to write what is missing; what its device sends still counts. */
  isOverdue = false
  /** The device has sent all that it will. */
  isOver = false
  /** Places of candidates, as numbers. */
  readonly #received = new Set<number>()

  constructor(options: SketchJobOptions) {
    this.options = options
    this.parts = Array.from({ length: options.size }, () => undefined)
  }

  /** The answers that wait for it. */
  get waitingParts(): PendingSketch[] {
    return this.parts.flatMap((part) => part ?? [])
  }

  attach(part: PendingSketch, sketch: number): void {
    this.parts[sketch] = part
    part.jobs.add(this)
    part.tried.add(this.options.device)
    part.attempts += 1
  }

  detach(part: PendingSketch): void {
    const at = this.parts.indexOf(part)
    if (at >= 0) this.parts[at] = undefined
    part.jobs.delete(this)
  }

  received(sketch: number, sentence: number, candidate: number): void {
    this.#received.add((sketch * maxLines + sentence) * maxCandidates + candidate)
  }

  /** Whether its device is there to expand; it may come back, but another one can begin now. */
  get isActive(): boolean {
    const { device } = this.options
    return this.isDispatched ? device.presence !== undefined : device.takesJobs
  }

  /** Whether no answer needs the sentences that the device has not sent yet. */
  isUseless(nowMs: number): boolean {
    const { expected, keptUntilMs } = this.options
    return (
      !this.isOver && this.#received.size < expected && nowMs >= keptUntilMs && this.parts.every((part) => part === undefined)
    )
  }

  /** Since its submission. */
  elapsedS(nowMs: number): number {
    return (nowMs - this.options.startedMs) / 1_000
  }

  /**
   * Time that its device has spent on it over what was predicted; 0 where that says nothing: no time was predicted, or the device may
   * not have it, or was away.
   */
  overrun(nowMs: number): number {
    const { predictedS, busyS } = this.options
    if (predictedS <= 0 || !this.isAccepted || this.wasRequeued || !this.isActive) return 0
    return (this.elapsedS(nowMs) - busyS) / predictedS
  }

  /** Predicted time until the device has expanded everything. */
  leftS(nowMs: number): number {
    return Math.max(0, this.options.predictedS - this.elapsedS(nowMs))
  }

  busyS(nowMs: number): number {
    return this.isActive ? this.leftS(nowMs) : 0
  }
}
