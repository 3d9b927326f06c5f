import { smooth } from '../estimate/ewma.ts'

/** Rounds of the first drafter before others are tried: a text's beginning is no fair sample. */
const firstRounds = 4
/** After so many rounds of the best, a trial of the one that was measured longest ago. */
const probeEvery = 16
/** A round counts as no longer than so many times what its drafter's rounds took before. */
const hiccup = 4
/** A challenger must be faster by so much: rounds are few and noisy. */
const margin = 1.05

/** How one drafter has fared in a session. */
export interface DrafterRecord {
  readonly name: string
  readonly rounds: number
  /** Smoothed, 'no drafting' being 1 token a round trip; null before its first round. */
  readonly tokensPerS: number | null
}

interface Arm {
  readonly name: string
  rounds: number
  /** Number of the measured round that was its last; 0: none yet. */
  measuredAt: number
  /** Trials in a row that it lost: the more, the rarer the next. */
  losses: number
  tokens: number | undefined
  seconds: number | undefined
}

/** A loser is tried after so many times `probeEvery` rounds at most. */
const rarest = 16

/**
 * Which drafter is worth most, by tokens per second as measured in this session: drafting costs steps on the device and
 * rows on the link, and may lose to plain decoding, which is one of the choices. No drafter is trusted for good: each is
 * tried again now and then, the rarer the more often it has lost. The first round after a change is not measured, for the
 * drafter catches up in it with what it has missed; so a trial takes two. A session begins with what the one before it has
 * measured: answers are short, and the device and its link are mostly what they were.
 */
export class DrafterChoice {
  readonly #arms: Arm[]
  #measured = 0
  /** Measured rounds of the best one since another was tried. */
  #sinceTrial = 0
  #best: Arm
  #next: Arm
  /** Of the round before. */
  #last: Arm

  /**
   * @param names the first is used until the others have been measured
   * @param before a session that has ended, with the same names
   * @throws RangeError without any
   */
  constructor(names: readonly string[], before?: DrafterChoice) {
    const unknown = { measuredAt: 0, losses: 0, tokens: undefined, seconds: undefined }
    const past = before ? before.#arms : []
    this.#arms = names.map((name, at) => ({ ...(past[at] ?? unknown), name, rounds: 0 }))
    const [first] = this.#arms
    if (!first) throw new RangeError('no drafter to choose from')
    const named = (wanted: string | undefined) => this.#arms.find(({ name }) => name === wanted) ?? first
    if (before) {
      this.#measured = before.#measured
      this.#sinceTrial = before.#sinceTrial
    }
    this.#best = named(before?.best)
    // A trial that the session's end cut short goes on.
    this.#next = named(before?.name)
    this.#last = this.#next
  }

  /** Rounds that it has learned from, those of the sessions before included. */
  get measured(): number {
    return this.#measured
  }

  /** For the coming round. */
  get name(): string {
    return this.#next.name
  }

  /** That is used but for trials. */
  get best(): string {
    return this.#best.name
  }

  records(): DrafterRecord[] {
    return this.#arms.map((arm) => ({ name: arm.name, rounds: arm.rounds, tokensPerS: rateOf(arm) ?? null }))
  }

  /** The round by `name` has ended. */
  record(tokens: number, seconds: number): void {
    const arm = this.#next
    const settled = arm === this.#last
    this.#last = arm
    arm.rounds += 1
    if (!settled) return
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
    arm.tokens = smooth(arm.tokens, tokens)
    // One hiccup of the link says nothing of the drafter.
    arm.seconds = smooth(arm.seconds, Math.min(seconds, (arm.seconds ?? seconds) * hiccup))
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
    const wait = ({ losses }: Arm) => probeEvery * Math.min(rarest, 2 ** Math.max(0, losses - 1))
    const due = this.#arms.filter((arm) => arm !== this.#best && this.#measured - arm.measuredAt >= wait(arm))
    return due.sort((a, b) => a.measuredAt - b.measuredAt)[0]
  }
}

const rateOf = ({ tokens, seconds }: Arm): number | undefined =>
  tokens === undefined || seconds === undefined ? undefined : tokens / Math.max(seconds, 1e-6)
