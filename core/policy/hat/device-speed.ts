import { Ewma } from '../estimate/ewma.ts'
import type { DraftHistory } from './draft-rounds.ts'

/** With fewer tokens a prefill measures the cost of a step, not of a token. */
const minPrefillTokens = 8
/** A step counts for at most this many times the average. */
const outlierCap = 4

/** Steps of a private answer, with the time that they took. */
export interface TimedSteps {
  /** Tokens of a prompt; steps that draft a token; one step that drafts ahead. */
  readonly of: 'prefill' | 'draft' | 'ahead'
  readonly count: number
  readonly seconds: number
}

/** How fast a device computes, smoothed over its real steps (HAT 'State monitoring'), and how it drafts. Mutable. */
export class DeviceSpeed {
  /** Of the drafts of earlier answers. */
  drafts: DraftHistory | undefined
  #prefillTokensPerS = new Ewma()
  #decodeStepS = new Ewma()
  /** The paper gives no weight of the past for γ. */
  #draftStepS = new Ewma()
  #aheadStepS = new Ewma()
  #steps = 0

  /** Tokens of a prompt per second; undefined before the first chunk. */
  get prefillTokensPerS(): number | undefined {
    return this.#prefillTokensPerS.value
  }

  /** Tokens of an answer per second of computing, however slowly they are read; undefined before the second token. */
  get decodeTokensPerS(): number | undefined {
    const { value } = this.#decodeStepS
    return value && 1 / value
  }

  /** γ: seconds per drafting step; undefined before the first. */
  get draftStepS(): number | undefined {
    return this.#draftStepS.value
  }

  /** γ_c: seconds per step of drafting ahead, all branches together; undefined before the first. */
  get aheadStepS(): number | undefined {
    return this.#aheadStepS.value
  }

  /** Whether a step of an answer runs now. */
  get isComputing(): boolean {
    return this.#steps > 0
  }

  /** @returns to be called when the step has ended; more calls change nothing */
  beginStep(): () => void {
    this.#steps += 1
    let isRunning = true
    return () => {
      if (isRunning) this.#steps -= 1
      isRunning = false
    }
  }

  /** Another model computes from now on. */
  reset(): void {
    this.drafts = undefined
    this.#prefillTokensPerS = new Ewma()
    this.#decodeStepS = new Ewma()
    this.#draftStepS = new Ewma()
    this.#aheadStepS = new Ewma()
  }

  record({ of, count, seconds }: TimedSteps): void {
    if (of === 'prefill') this.recordPrefill(count, seconds)
    else if (of === 'draft') this.recordDraft(count, seconds)
    else this.recordAheadStep(seconds)
  }

  recordPrefill(tokens: number, seconds: number): void {
    if (tokens >= minPrefillTokens && seconds > 0) this.#prefillTokensPerS.record(tokens / seconds)
  }

  recordDecode(seconds: number): void {
    if (seconds > 0) this.#decodeStepS.record(seconds, outlierCap)
  }

  recordDraft(steps: number, seconds: number): void {
    if (steps > 0 && seconds >= 0) this.#draftStepS.record(seconds / steps)
  }

  recordAheadStep(seconds: number): void {
    this.#aheadStepS.record(seconds, outlierCap)
  }
}
