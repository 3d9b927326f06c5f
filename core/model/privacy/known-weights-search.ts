import type { Part } from '../engine/contract.ts'
import type { Sending } from './observation.ts'
import { siblingStates } from './sibling-states.ts'
import type { StateCodebook } from './state-codebook.ts'
import { guessCount, type TokenGuess } from './token-guess.ts'

/** Tokens that are tried first: those whose state after another text is the nearest. */
const firstCandidates = 256
/** A token is found where the squared distance of its state is below this share of that of the next best token. */
const clearShare = 0.1

export interface SearchOptions {
  /** The `input` part: the attacker has the weights. */
  readonly part: Part
  readonly codebook: StateCodebook
  readonly vocab: number
  readonly contextLimit: number
  /** As in AuditOptions. */
  readonly known?: Sending | undefined
}

/**
 * Token by token, the attacker computes what the device would have sent for each candidate, after the tokens found so far, and takes
 * the nearest. Whatever the depth of the split, only one token gives the state that was sent ("Language models are injective",
 * arXiv 2510.15511).
 * @param rows [rows, width] as the bridge gets them. @param first the first token, which every prompt of the model has
 * @returns guesses for all rows, the first token included
 */
export async function searchTokens(
  rows: Float32Array,
  first: number,
  { part, codebook, vocab, contextLimit, known }: SearchOptions,
): Promise<TokenGuess[]> {
  const { width } = codebook
  const all = Array.from({ length: vocab }, (_, id) => id)
  const guesses: TokenGuess[] = [[first]]
  const sequence = part.createSequence()
  try {
    await part.step([{ sequence, ids: [first], select: 'none' }])
    for (let at = 1; at < rows.length / width && at < contextLimit; at++) {
      const row = rows.subarray(at * width, (at + 1) * width)
      const likely = codebook.nearest(row, firstCandidates)
      const near = new NearestTokens()
      for (const candidates of [likely, all]) {
        for await (const { ids, values } of siblingStates(part, sequence, candidates, { contextLimit, known }))
          near.add(ids, values, row)
        if (near.isClear) break
      }
      guesses.push(near.guess)
      await part.step([{ sequence, ids: [near.guess[0]!], select: 'none' }])
    }
    return guesses
  } finally {
    sequence.release()
  }
}

/** The tokens whose states are the nearest to a row, in ascending order. Mutable. */
class NearestTokens {
  #best: { readonly id: number; readonly distance: number }[] = []

  get guess(): TokenGuess {
    return this.#best.map(({ id }) => id)
  }

  /** Whether one of them stands out. */
  get isClear(): boolean {
    const [first, second] = this.#best
    return first !== undefined && second !== undefined && first.distance < clearShare * second.distance
  }

  add(ids: readonly number[], values: Float32Array, row: Float32Array): void {
    const added = ids.map((id, at) => ({ id, distance: squaredDistance(values, at * row.length, row) }))
    const known = new Set(ids)
    this.#best = [...this.#best.filter(({ id }) => !known.has(id)), ...added]
      .sort((a, b) => a.distance - b.distance)
      .slice(0, guessCount)
  }
}

function squaredDistance(values: Float32Array, from: number, row: Float32Array): number {
  let sum = 0
  for (let at = 0; at < row.length; at++) sum += ((values[from + at] as number) - (row[at] as number)) ** 2
  return sum
}
