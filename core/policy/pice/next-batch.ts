import type { WaitingExpansion } from './state.ts'

export interface BatchTerms {
  /** Upper bounds of the lists in expected tokens, ascending; longer ones share the last list. */
  readonly upToTokens: readonly number[]
  /** Sketches in a batch. */
  readonly maxSketches: number
  /** A list whose oldest expansion has waited this long comes first: the paper's rule alone may starve it. */
  readonly maxWaitS: number
}

export const defaultBatchTerms: BatchTerms = { upToTokens: [64, 128, 256, 512, 1_024], maxSketches: 4, maxWaitS: 5 }

/**
 * The expansions that a device takes: like lengths, from the list with the most (PICE, Algorithm 1), the oldest first.
 * @param availableDevices that could take expansions now, this one included: all get a share of what waits
 * @param fits whether the device may take so much at once; one expansion always does
 * @returns empty only if nothing waits
 */
export function nextBatch<W extends WaitingExpansion>(
  waiting: readonly W[],
  { upToTokens, maxSketches, maxWaitS }: BatchTerms = defaultBatchTerms,
  availableDevices = 1,
  fits: (batch: readonly W[]) => boolean = () => true,
): W[] {
  const listOf = ({ expectedTokens }: W) => upToTokens.findIndex((bound) => expectedTokens <= bound)
  const lists = new Map<number, W[]>()
  for (const expansion of [...waiting].sort((a, b) => b.waitedS - a.waitedS)) {
    const name = listOf(expansion)
    lists.set(name, [...(lists.get(name) ?? []), expansion])
  }
  // In the order of their oldest, which decides between lists of the same length.
  const [oldest, ...others] = lists.values()
  if (!oldest) return []
  const chosen = oldest[0]!.waitedS >= maxWaitS ? oldest : others.reduce((a, b) => (b.length > a.length ? b : a), oldest)
  const share = Math.ceil(waiting.length / Math.max(1, availableDevices))
  const most = Math.min(maxSketches, share)
  const batch = chosen.slice(0, 1)
  for (const expansion of chosen.slice(1, most)) {
    if (!fits([...batch, expansion])) break
    batch.push(expansion)
  }
  return batch
}
