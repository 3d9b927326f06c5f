import type { WaitingExpansion } from './state.ts'

export interface BatchTerms {
  /** Upper bounds of the lists in expected tokens, ascending; longer ones share the last list. */
  readonly upToTokens: readonly number[]
  /** Sketches in a batch. */
  readonly maxSketches: number
  /** An expansion that has waited this long comes first, with its list: the paper's rule alone may starve it. */
  readonly maxWaitS: number
}

export const defaultBatchTerms: BatchTerms = { upToTokens: [64, 128, 256, 512, 1_024], maxSketches: 4, maxWaitS: 5 }

/**
 * The expansions that a device takes: like lengths, from the list with the most (PICE, Algorithm 1), the oldest first. The oldest of
 * all comes first where it has waited too long, or the device would not have it in time after that batch.
 * @param availableDevices that could take expansions now, this one included: all get a share of what waits
 * @param fits whether the device finishes so much in time; it takes one expansion in any case
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
  const [first, ...others] = lists.values()
  const oldest = first?.[0]
  if (!first || !oldest) return []
  const share = Math.ceil(waiting.length / Math.max(1, availableDevices))
  const batchOf = (list: readonly W[]) => {
    const batch = list.slice(0, 1)
    for (const expansion of list.slice(1, Math.min(maxSketches, share))) {
      if (!fits([...batch, expansion])) break
      batch.push(expansion)
    }
    return batch
  }
  const longest = others.reduce((a, b) => (b.length > a.length ? b : a), first)
  if (longest === first || oldest.waitedS >= maxWaitS) return batchOf(first)
  const batch = batchOf(longest)
  return fits([...batch, oldest]) ? batch : batchOf(first)
}
