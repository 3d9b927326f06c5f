import type { ScenarioResult } from '../run/result.ts'

/** What all answers of a fleet keep. */
export interface ServiceLevel {
  /** P95. */
  readonly ttftMs: number
  /** Time that readers wait after the first token, over reading time. */
  readonly stalls: number
}

export const stallsOf = ({ all: { stalledMs, answered, readingS } }: ScenarioResult): number =>
  readingS === 0 ? 0 : (stalledMs.mean * answered) / 1_000 / readingS

export function meets(result: ScenarioResult, { ttftMs, stalls }: ServiceLevel): boolean {
  const { all } = result
  return all.answered === all.requests && all.ttftMs.p95 <= ttftMs && stallsOf(result) <= stalls
}

/**
 * The least number that is enough, for several searches at once, by bisection: more of it is never less.
 *
 * @param isEnough the answers for one number of each search that goes on, by its index
 * @param most tried first @returns by search; undefined: `most` is not enough
 */
export async function leastEnough(
  searches: number,
  most: number,
  isEnough: (numbers: ReadonlyMap<number, number>) => Promise<ReadonlyMap<number, boolean>>,
): Promise<(number | undefined)[]> {
  const low = Array.from({ length: searches }, () => 0)
  const high: (number | undefined)[] = Array.from({ length: searches })
  const first = await isEnough(new Map(low.map((_, i) => [i, most])))
  for (const [i, enough] of first) if (enough) high[i] = most
  for (;;) {
    const next = new Map(
      high.flatMap((top, i) => (top !== undefined && top - low[i]! > 1 ? [[i, Math.floor((low[i]! + top) / 2)]] : [])),
    )
    if (next.size === 0) return high
    for (const [i, enough] of await isEnough(next)) {
      if (enough) high[i] = next.get(i)!
      else low[i] = next.get(i)!
    }
  }
}
