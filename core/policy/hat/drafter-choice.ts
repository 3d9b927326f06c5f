import { Ewma } from '../estimate/ewma.ts'

/** Rounds of the first drafter before others are tried: the beginning of a text is no fair sample. */
const firstRounds = 4
/** Rounds of the best drafter between two trials. */
const probeEvery = 16
/** The wait before a drafter's next trial doubles with each loss, up to this many times `probeEvery`. */
const maxWait = 16
/** A round counts for at most this many times its drafter's average: one slow round must not decide. */
const outlierCap = 4
/** A challenger must be this many times as fast as the best: rounds are few and noisy. */
const margin = 1.05

/** How one drafter has done in a session. */
export interface DrafterRecord {
  readonly name: string
  readonly rounds: number
  /** Smoothed; 'no drafting' yields 1 token per round trip. Null before its first measured round. */
  readonly tokensPerS: number | null
}

interface Arm {
  readonly name: string
  rounds: number
  /** Index of its last measured round; 0 before the first. */
  measuredAt: number
  /** Trials lost in a row: the more, the rarer the next. */
  losses: number
  readonly tokens: Ewma
  readonly seconds: Ewma
}

/**
 * Chooses the drafter with the most tokens per second, as measured in this session. Mutable. Drafting costs steps on the
 * device and rows on the link and may lose to plain decoding, which is one of the choices. Every drafter is tried again
 * from time to time, the rarer the more often it has lost. The first round after a change is not measured, because the
 * drafter catches up in it; so a trial takes two rounds. A session begins with the measurements of the one before: answers
 * are short, and device and link have mostly not changed.
 */
export class DrafterChoice {
  readonly #arms: Arm[]
  #measured = 0
  /** Measured rounds of the best since another was tried. */
  #sinceTrial = 0
  #best: Arm
  #next: Arm
  /** Of the round before. */
  #last: Arm

  /**
   * @param names the first is used until the others have been measured
   * @param before an earlier session with the same names
   * @throws RangeError without any name
   */
  constructor(names: readonly string[], before?: DrafterChoice) {
    const past = before ? before.#arms : []
    this.#arms = names.map((name, at) => newArm(name, past[at]))
    const [first] = this.#arms
    if (!first) throw new RangeError('no drafter to choose from')
    const named = (wanted: string | undefined) => this.#arms.find(({ name }) => name === wanted) ?? first
    if (before) {
      this.#measured = before.#measured
      this.#sinceTrial = before.#sinceTrial
    }
    this.#best = named(before?.best)
    // A trial that the end of a session interrupted continues.
    this.#next = named(before?.name)
    this.#last = this.#next
  }

  /** Measured rounds, those of earlier sessions included. */
  get measured(): number {
    return this.#measured
  }

  /** The drafter of the next round. */
  get name(): string {
    return this.#next.name
  }

  /** The drafter used except for trials. */
  get best(): string {
    return this.#best.name
  }

  records(): DrafterRecord[] {
    return this.#arms.map((arm) => ({ name: arm.name, rounds: arm.rounds, tokensPerS: rateOf(arm) ?? null }))
  }

  /** The round of `name` has ended. */
  record(tokens: number, seconds: number): void {
    const arm = this.#next
    const isSettled = arm === this.#last
    this.#last = arm
    arm.rounds += 1
    if (!isSettled) return
    this.#measure(arm, tokens, seconds)
    this.#sinceTrial = arm === this.#best ? this.#sinceTrial + 1 : 0
    const fastest = this.#fastest()
    if (fastest !== this.#best) fastest.losses = 0
    else if (arm !== fastest) arm.losses += 1
    this.#best = fastest
    this.#next = this.#trial() ?? this.#best
  }

  #measure(arm: Arm, tokens: number, seconds: number): void {
    this.#measured += 1
    arm.measuredAt = this.#measured
    arm.tokens.record(tokens)
    arm.seconds.record(seconds, outlierCap)
  }

  #fastest(): Arm {
    const rateToBeat = (rateOf(this.#best) ?? 0) * margin
    const faster = this.#arms.filter((arm) => arm !== this.#best && (rateOf(arm) ?? 0) > rateToBeat)
    return faster.sort((a, b) => rateOf(b)! - rateOf(a)!)[0] ?? this.#best
  }

  #trial(): Arm | undefined {
    if (this.#measured < firstRounds) return undefined
    const untried = this.#arms.find((arm) => arm.measuredAt === 0)
    if (untried || this.#sinceTrial < probeEvery) return untried
    const wait = ({ losses }: Arm) => probeEvery * Math.min(maxWait, 2 ** Math.max(0, losses - 1))
    const due = this.#arms.filter((arm) => arm !== this.#best && this.#measured - arm.measuredAt >= wait(arm))
    return due.sort((a, b) => a.measuredAt - b.measuredAt)[0]
  }
}

function newArm(name: string, past: Arm | undefined): Arm {
  if (!past) return { name, rounds: 0, measuredAt: 0, losses: 0, tokens: new Ewma(), seconds: new Ewma() }
  return { ...past, name, rounds: 0, tokens: past.tokens.copy(), seconds: past.seconds.copy() }
}

function rateOf({ tokens, seconds }: Arm): number | undefined {
  if (tokens.value === undefined || seconds.value === undefined) return undefined
  return tokens.value / Math.max(seconds.value, 1e-6)
}
