import { type DraftLimits, draftEnds } from '../policy/hat/draft-stop.ts'
import type { KnownStream } from './device-stream.ts'
import type { Drafter } from './drafter.ts'

/**
 * One round's draft, after the pending token, which is the stream's last.
 * @param feed appends tokens to the stream, which is how their shallow states come about
 * @param limits of this draft; a limit of 0 drafts nothing
 * @param eos tokens that end the answer: nothing follows them
 * @returns the drafted tokens; all of them have been fed
 */
export async function draftTokens(
  drafter: Drafter,
  known: KnownStream,
  feed: (tokens: readonly number[]) => Promise<void>,
  limits: DraftLimits,
  eos: readonly number[],
): Promise<number[]> {
  const draft: number[] = []
  let ended = limits.limit === 0
  while (!ended) {
    const guessed: number[] = []
    for (const { token, topProbability } of await drafter.next(known)) {
      guessed.push(token)
      ended = draftEnds(topProbability, draft.length + guessed.length, limits) || eos.includes(token)
      if (ended) break
    }
    if (guessed.length === 0) break
    draft.push(...guessed)
    await feed(guessed)
  }
  return draft
}
