/** What proposes a token: a model, an earlier place of the text, the grammar of the answer; `given`: whose answer is verified. */
export type GuessSource = 'adapter' | 'lookup' | 'slm' | 'grammar' | 'given'

/** A proposed token, as far as it tells how often such tokens are right. */
export interface RatedGuess {
  readonly source: GuessSource
  /** What its source makes of it, 0..1. */
  readonly probability: number
}

/** Guesses that were checked, and those of them that were right; old ones count less. */
type Count = readonly [checked: number, right: number]

/** What is known of guesses: by source and confidence, by that and place, and by place in a draft. Plain data. */
export type AcceptanceCounts = Readonly<Record<string, Count>>

/** Guesses for which a coarser estimate counts. */
const priorWeight = 8
/** With each guess that was checked, those before it count so much. */
const decay = 0.97
/** Steps of confidence that are told apart. */
const bins = 8
/** First places of the classes of places: what follows a long run of right tokens is right more often. */
const placeStarts = [0, 1, 2, 3, 5, 8] as const
/** Share of drafted tokens that is right, before there are any. */
const usualShare = 0.6

const classOf = (place: number): number => placeStarts.findLastIndex((start) => place >= start)

/**
 * How often guesses are right where all before them are: by their source, its confidence, and the number of guesses of the
 * same source before them in the draft. Learned from what verifications show; each estimate begins with a coarser one, and the
 * coarsest is the source's own confidence. Mutable.
 */
export class DraftAcceptance {
  readonly #counts: Map<string, Count>

  constructor(counts: AcceptanceCounts = {}) {
    this.#counts = new Map(Object.entries(counts))
  }

  get counts(): AcceptanceCounts {
    return Object.fromEntries(this.#counts)
  }

  /** The chance that a guess is right if all before it are, 0..1. */
  chanceOf(before: readonly RatedGuess[], guess: RatedGuess): number {
    const [bin, cell] = keysOf(before, guess)
    return this.#share(cell, this.#share(bin, guess.probability))
  }

  /** The same of the next guess, before it is made. @param place tokens of the draft before it */
  nextChance(place: number): number {
    return this.#share(`next ${classOf(place)}`, this.#share('next', usualShare))
  }

  /** @param accepted of the guesses; what follows the first wrong one is not known to be right or wrong */
  record(guesses: readonly RatedGuess[], accepted: number): void {
    for (const [place, guess] of guesses.slice(0, accepted + 1).entries()) {
      const keys = [...keysOf(guesses.slice(0, place), guess), 'next', `next ${classOf(place)}`]
      for (const key of keys) {
        const [checked, right] = this.#counts.get(key) ?? [0, 0]
        this.#counts.set(key, [decay * checked + 1, decay * right + (place < accepted ? 1 : 0)])
      }
    }
  }

  #share(key: string, prior: number): number {
    const [checked, right] = this.#counts.get(key) ?? [0, 0]
    return (right + priorWeight * prior) / (checked + priorWeight)
  }
}

function keysOf(before: readonly RatedGuess[], { source, probability }: RatedGuess): [bin: string, cell: string] {
  const bin = `${source} ${Math.min(bins - 1, Math.floor(bins * probability))}`
  let run = 0
  while (run < before.length && before.at(-1 - run)?.source === source) run += 1
  return [bin, `${bin} ${classOf(run)}`]
}
