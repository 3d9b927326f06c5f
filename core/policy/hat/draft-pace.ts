import { Ewma } from '../estimate/ewma.ts'

/** A round counts for at most this many times the average: a failover is not the pace of a session. */
const outlierCap = 4

/** What time is worth in a session, and what another drafted token costs. */
export interface DraftPace {
  /** Tokens per second that its rounds have gained. */
  readonly tokensPerS: number
  /** Of drafted tokens that follow right ones, the share that is right. */
  readonly rightShare: number
  /** Seconds that another drafted token adds to the round: its drafting step, and its row's way up and down. */
  readonly tokenS: number
}

/**
 * Whether another token is worth its time: it gains `chance · rightShare` tokens, and in the time that it takes the session
 * gains `tokensPerS · tokenS` otherwise. Stopping at the average rate maximises it (renewal reward); that the best stop is a
 * threshold on the chance that all drafted tokens are right: SpecDec++, Huang et al. 2024, arXiv:2405.19715.
 * @param chance that all tokens of the draft are right, 0..1
 */
export function draftPays(chance: number, { tokensPerS, rightShare, tokenS }: DraftPace): boolean {
  return chance * rightShare >= tokensPerS * tokenS
}

/** A verification has ended. */
export interface DraftRound {
  /** That it added to the answer. */
  readonly tokens: number
  /** Since the draft began. */
  readonly seconds: number
  readonly drafted: number
  /** Of the drafted tokens, the right ones. */
  readonly accepted: number
}

/** The pace of a session's rounds, smoothed. Mutable. */
export class RoundPace {
  readonly #tokens = new Ewma()
  readonly #seconds = new Ewma()
  readonly #right = new Ewma()
  readonly #checked = new Ewma()

  record({ tokens, seconds, drafted, accepted }: DraftRound): void {
    this.#tokens.record(tokens)
    this.#seconds.record(seconds, outlierCap)
    if (drafted === 0) return
    this.#right.record(accepted)
    // What follows the first wrong token is not known to be right or wrong.
    this.#checked.record(Math.min(drafted, accepted + 1))
  }

  /** @param tokenS as in `DraftPace` @returns undefined before the first round with a draft */
  paceAt(tokenS: number): DraftPace | undefined {
    const [tokens, seconds, right, checked] = [this.#tokens.value, this.#seconds.value, this.#right.value, this.#checked.value]
    if (!tokens || !seconds || right === undefined || !checked) return undefined
    return { tokensPerS: tokens / seconds, rightShare: right / checked, tokenS }
  }
}
