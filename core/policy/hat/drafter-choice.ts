import { smooth } from './smooth.ts'

/** Rounds of the first drafter before others are tried: a text's beginning is no fair sample. */
const firstRounds = 4
/** Every so many rounds, one by the drafter that was used longest ago. */
const probeEvery = 16
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
  /** Number of the round that it was used in last. */
  usedAt: number
  tokens: number | undefined
  seconds: number | undefined
}

/**
 * Which drafter is worth most, by tokens per second as measured in this session: drafting costs steps on the device and
 * rows on the link, and may lose to plain decoding, which is one of the choices. No drafter is trusted for good: each is
 * tried again now and then.
 */
export class DrafterChoice {
  readonly #arms: Arm[]
  #rounds = 0
  #best: Arm
  #next: Arm

  /** @param names the first is used until the others have been measured. @throws RangeError without any */
  constructor(names: readonly string[]) {
    this.#arms = names.map((name) => ({ name, rounds: 0, usedAt: 0, tokens: undefined, seconds: undefined }))
    const [first] = this.#arms
    if (!first) throw new RangeError('no drafter to choose from')
    this.#best = first
    this.#next = first
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
    this.#rounds += 1
    arm.rounds += 1
    arm.usedAt = this.#rounds
    arm.tokens = smooth(arm.tokens, tokens)
    arm.seconds = smooth(arm.seconds, seconds)
    this.#best = this.#fastest()
    this.#next = this.#trial() ?? this.#best
  }

  #fastest(): Arm {
    const rateToBeat = (rateOf(this.#best) ?? 0) * margin
    const faster = this.#arms.filter((arm) => arm !== this.#best && (rateOf(arm) ?? 0) > rateToBeat)
    return faster.sort((a, b) => rateOf(b)! - rateOf(a)!)[0] ?? this.#best
  }

  #trial(): Arm | undefined {
    if (this.#rounds < firstRounds) return undefined
    const untried = this.#arms.find((arm) => arm.rounds === 0)
    if (untried || this.#rounds % probeEvery !== 0) return untried
    return this.#arms.filter((arm) => arm !== this.#best).sort((a, b) => a.usedAt - b.usedAt)[0]
  }
}

const rateOf = ({ tokens, seconds }: Arm): number | undefined =>
  tokens === undefined || seconds === undefined ? undefined : tokens / Math.max(seconds, 1e-6)
