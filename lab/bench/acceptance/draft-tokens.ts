import type { KnownStream } from '../../../core/draft/device-stream.ts'
import type { Drafter } from '../../../core/draft/drafter.ts'
import { guessOf } from '../../../core/draft/guess-of.ts'
import { emptyChain, extended, isComplete } from '../../../core/policy/hat/draft-chain.ts'
import type { DraftLimits } from '../../../core/policy/hat/draft-stop.ts'

/**
 * One draft after the last row.
 * @param feed appends tokens to the stream, which computes their shallow states
 * @param eos tokens that end the text
 */
export async function draftTokens(
  drafter: Drafter,
  known: KnownStream,
  feed: (tokens: readonly number[]) => Promise<void>,
  limits: DraftLimits,
  eos: readonly number[],
): Promise<readonly number[]> {
  const drafted: number[] = []
  for (let chain = emptyChain; !isComplete(chain, limits); ) {
    const [guesses = []] = await drafter.next(known, [known.rows.length - 1])
    const proposed = guesses.map((guess) => guessOf(guess, eos))
    chain = extended(chain, proposed, limits)
    const taken = guesses.slice(0, chain.guesses.length - drafted.length).map(({ token }) => token)
    if (taken.length > 0) await feed(taken)
    drafted.push(...taken)
  }
  return drafted
}
