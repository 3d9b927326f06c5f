import { smooth } from './smooth.ts'

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
  tokens: number | undefined
  seconds: number | undefined
}

/**
 * Which drafter is worth most, by tokens per second as measured in this session: drafting costs steps on the device and
 * rows on the link, and may lose to plain decoding, which is one of the choices. No drafter is trusted for good: each is
 * tried again now and then. The first round after a change is not measured, for the drafter catches up in it with what it
 * has missed; so a trial takes two.
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

  /** @param names the first is used until the others have been measured. @throws RangeError without any */
  constructor(names: readonly string[]) {
    this.#arms = names.map((name) => ({ name, rounds: 0, measuredAt: 0, tokens: undefined, seconds: undefined }))
    const [first] = this.#arms
    if (!first) throw new RangeError('no drafter to choose from')
    this.#best = first
    this.#next = first
    this.#last = first
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
    this.#best = this.#fastest()
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
    return this.#arms.filter((arm) => arm !== this.#best).sort((a, b) => a.measuredAt - b.measuredAt)[0]
  }
}

const rateOf = ({ tokens, seconds }: Arm): number | undefined =>
  tokens === undefined || seconds === undefined ? undefined : tokens / Math.max(seconds, 1e-6)
