import { ascending } from './ascending.ts'

/** Requests around the first that does not fit any more, among which the choice is searched. */
const searched = 16
/** Partial choices that are tried, at most. */
const maxTried = 2_000

/**
 * The requests with the greatest sum of utilities that fit into the memory: greedily by utility per byte, then a branch and
 * bound search among the neighbours of the first that does not fit, which covers TokenFlow's swaps of neighbours (§4.2.2).
 * The sum is never below the greedy one, and the greatest possible for up to 16 requests unless the search is cut off.
 * @param utilities those that are not positive are never chosen
 * @param bytes >= 0
 * @returns indices of the chosen requests; near linear: O(n + chosen · log n)
 */
export function chooseWithin(utilities: Float64Array, bytes: Float64Array, memoryBytes: number): number[] {
  const density = utilities.map((utility, at) => (utility > 0 ? -utility / bytes[at]! : Number.POSITIVE_INFINITY))
  const smallest = bytes.reduce((least, one) => Math.min(least, one), Number.POSITIVE_INFINITY)
  const order: number[] = []
  const greedy: number[] = []
  let leftBytes = memoryBytes
  let firstOut: number | undefined
  for (const next of ascending(density)) {
    order.push(next)
    if (bytes[next]! <= leftBytes) {
      leftBytes -= bytes[next]!
      greedy.push(next)
    } else firstOut ??= order.length - 1
    const neighbours = firstOut === undefined ? 0 : order.length - firstOut
    if (neighbours >= searched / 2 && leftBytes < smallest) break
  }
  if (firstOut === undefined) return greedy
  const from = Math.max(0, Math.min(firstOut - searched / 2, order.length - searched))
  const left = (chosen: readonly number[]) => chosen.reduce((rest, at) => rest - bytes[at]!, memoryBytes)
  const first = order.slice(0, from)
  const found = [...first, ...search(order.slice(from, from + searched), utilities, bytes, left(first))]
  found.push(...order.slice(from + searched).filter(greedyFit(bytes, left(found))))
  const sumOf = (chosen: readonly number[]) => chosen.reduce((sum, at) => sum + utilities[at]!, 0)
  return sumOf(found) > sumOf(greedy) ? found : greedy
}

/** Takes each index that still fits. */
function greedyFit(bytes: Float64Array, memoryBytes: number): (at: number) => boolean {
  let left = memoryBytes
  return (at) => {
    if (bytes[at]! > left) return false
    left -= bytes[at]!
    return true
  }
}

/** @param order by utility per byte, greatest first */
function search(order: readonly number[], utilities: Float64Array, bytes: Float64Array, memoryBytes: number): number[] {
  let best = order.filter(greedyFit(bytes, memoryBytes))
  let bestSum = best.reduce((sum, at) => sum + utilities[at]!, 0)
  const chosen: number[] = []
  let tried = 0
  const visit = (depth: number, sum: number, left: number): void => {
    if (sum > bestSum) {
      best = [...chosen]
      bestSum = sum
    }
    tried += 1
    if (depth === order.length || tried > maxTried || sum + boundOf(depth, left) <= bestSum) return
    const at = order[depth]!
    if (bytes[at]! <= left) {
      chosen.push(at)
      visit(depth + 1, sum + utilities[at]!, left - bytes[at]!)
      chosen.pop()
    }
    visit(depth + 1, sum, left)
  }
  /** What the requests from `depth` on could add if the last one could be chosen in part. */
  const boundOf = (depth: number, left: number): number => {
    let sum = 0
    for (let i = depth; i < order.length; i += 1) {
      const at = order[i]!
      if (bytes[at]! > left) return sum + (utilities[at]! * left) / bytes[at]!
      left -= bytes[at]!
      sum += utilities[at]!
    }
    return sum
  }
  visit(0, 0, memoryBytes)
  return best
}
