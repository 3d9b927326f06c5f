import { Ewma } from '../estimate/ewma.ts'
import { type AcceptanceCounts, DraftAcceptance, type RatedGuess } from './draft-acceptance.ts'
import { knownCosts, type RoundCosts, tokenPays, type UsualRound } from './draft-gain.ts'

/** A round counts for at most this many times the average: a failover is not the pace of a session. */
const outlierCap = 4
/** Weight of the past; rounds vary much, and delays that change do not wait for it. */
const alpha = 0.95
/** Before the first round. */
const usual: UsualRound = { tokens: 1.8, drafted: 2, waited: 2 }
/** Of rounds without a draft, one of so many drafts a token: what was never right may be by now. */
const probeEvery = 16

export interface DraftRule {
  /** Maximum tokens per draft, >= 0. */
  readonly limit: number
  /** Whether a token that is guessed already becomes part of the draft. */
  takes(draft: readonly RatedGuess[], guess: RatedGuess): boolean
  /** Whether another token is guessed. */
  continues(draft: readonly RatedGuess[]): boolean
}

/** HAT Eq. 5: a draft ends with the token whose probability is below η. That token is still sent. @param threshold η, 0..1 */
export function thresholdRule(threshold: number, limit: number): DraftRule {
  const isCertain = (draft: readonly RatedGuess[]) => (draft.at(-1)?.probability ?? 1) >= threshold
  return { limit, takes: isCertain, continues: isCertain }
}

/** A verification has ended. */
export interface DraftRound {
  /** That it added to the answer. */
  readonly tokens: number
  readonly draft: readonly RatedGuess[]
  /** Tokens of the draft that were drafted ahead. */
  readonly prepared: number
  /** Of the draft's tokens, the right ones. */
  readonly accepted: number
  /** Seconds beside drafting and the verification: the pending token's row, and the head; undefined: not those of a round. */
  readonly overheadS: number | undefined
  /** Of the pending token's row on the device; undefined: it was drafted ahead. */
  readonly feedS: number | undefined
}

/** All that was learned of the drafts of a device. Plain data. */
export interface DraftHistory {
  readonly counts: AcceptanceCounts
  readonly tokens?: number | undefined
  readonly drafted?: number | undefined
  readonly waited?: number | undefined
  readonly overheadS?: number | undefined
  readonly feedS?: number | undefined
}

/** What the rounds of a device have shown, by which drafts end where another token does not pay (draft-gain.ts). Mutable. */
export class DraftRounds {
  readonly #acceptance: DraftAcceptance
  readonly #tokens: Ewma
  readonly #drafted: Ewma
  readonly #waited: Ewma
  readonly #overheadS: Ewma
  readonly #feedS: Ewma
  #withoutDraft = 0

  /** @param before of earlier sessions */
  constructor(before?: DraftHistory) {
    this.#acceptance = new DraftAcceptance(before?.counts)
    this.#tokens = new Ewma(alpha, before?.tokens)
    this.#drafted = new Ewma(alpha, before?.drafted)
    this.#waited = new Ewma(alpha, before?.waited)
    this.#overheadS = new Ewma(alpha, before?.overheadS)
    this.#feedS = new Ewma(alpha, before?.feedS)
  }

  get history(): DraftHistory {
    const { counts } = this.#acceptance
    const [tokens, drafted, waited] = [this.#tokens.value, this.#drafted.value, this.#waited.value]
    return { counts, tokens, drafted, waited, overheadS: this.#overheadS.value, feedS: this.#feedS.value }
  }

  /** Seconds of a round beside drafting and verification; 0 before the first. */
  get overheadS(): number {
    return this.#overheadS.value ?? 0
  }

  /**
   * The rule of a round, or of what is drafted `ahead`, during its verification: that takes time in which the device would wait.
   */
  rule(costs: RoundCosts, limit: number, when: 'round' | 'ahead' = 'round'): DraftRule {
    const acceptance = this.#acceptance
    const round = {
      tokens: this.#tokens.value ?? usual.tokens,
      drafted: this.#drafted.value ?? usual.drafted,
      waited: this.#waited.value ?? usual.waited,
    }
    const { draftS, rowS } = knownCosts(costs)
    // A token that is guessed has cost its guess. γ has both: the guess, and the device's pass over the token.
    const feedS = Math.min(draftS, this.#feedS.value ?? draftS / 2)
    const [guessedS, takenS] = when === 'ahead' ? [rowS, rowS] : [draftS + rowS, feedS + rowS]
    const isProbe = this.#withoutDraft >= probeEvery - 1
    const chanceOf = (draft: readonly RatedGuess[]) =>
      draft.reduce((chance, guess, at) => chance * acceptance.chanceOf(draft.slice(0, at), guess), 1)
    const pays = (chance: number, costS: number) => tokenPays(chance, costS, round, costs)
    return {
      limit,
      takes: (draft, guess) => (isProbe && draft.length === 0) || pays(chanceOf([...draft, guess]), takenS),
      continues: (draft) =>
        (isProbe && draft.length === 0) || pays(chanceOf(draft) * acceptance.nextChance(draft.length), guessedS),
    }
  }

  record({ tokens, draft, prepared, accepted, overheadS, feedS }: DraftRound): void {
    this.#tokens.record(tokens)
    this.#drafted.record(draft.length)
    this.#waited.record(Math.max(0, draft.length - prepared))
    if (overheadS !== undefined) this.#overheadS.record(Math.max(0, overheadS), outlierCap)
    if (feedS !== undefined) this.#feedS.record(feedS, outlierCap)
    this.#withoutDraft = draft.length === 0 ? this.#withoutDraft + 1 : 0
    this.#acceptance.record(draft, accepted)
  }
}
