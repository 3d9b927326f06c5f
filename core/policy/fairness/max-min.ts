/**
 * Shares an amount out so that no demand gets more while another one gets less and is not met: those below an even share are met, and
 * the others share the rest evenly.
 */
export function maxMinShares<K>(demands: ReadonlyMap<K, number>, amount: number): Map<K, number> {
  const shares = new Map<K, number>()
  let left = amount
  let others = demands.size
  for (const [key, demand] of [...demands].sort(([, a], [, b]) => a - b)) {
    const share = Math.min(demand, left / others)
    shares.set(key, share)
    left -= share
    others -= 1
  }
  return shares
}
