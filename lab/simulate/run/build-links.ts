import type { Random } from '../../../core/kit/base/random.ts'
import { type RateTrace, randomWalk, scaledTo } from '../../cluster/rate-trace.ts'
import type { Link, Rate } from '../scenario/scenario.ts'
import type { LinkModel } from '../world/simulated-link.ts'
import type { ScenarioData } from './scenario-data.ts'

/** As the live benchmarks draw theirs: a new rate each second, for ten minutes, then again from the start. */
const walk = { intervalMs: 1_000, count: 600 }
/** Walks that the devices of a group share, each at an offset of its own. */
const sharedWalks = 64

/** Makes the links of a group's devices, one after the other. */
export function linksOf(
  { up, down, rttMs, lossPercent }: Link,
  { rates }: Pick<ScenarioData, 'rates'>,
  random: Random,
): () => LinkModel {
  const tracesOf = (rate: Rate): readonly RateTrace[] => {
    if (typeof rate === 'number') return [{ intervalMs: Number.POSITIVE_INFINITY, bytesPerS: [rate] }]
    if ('walk' in rate) {
      const [lowBytesPerS, highBytesPerS] = rate.walk
      return Array.from({ length: sharedWalks }, () =>
        randomWalk({ lowBytesPerS, highBytesPerS }, walk.intervalMs, walk.count, random),
      )
    }
    const recorded = rates.get(rate.trace) ?? []
    const { meanBytesPerS } = rate
    // Nothing ends on a link without rate: scaling keeps every second above a twentieth of the mean.
    return recorded.map((trace) => scaledTo(trace, meanBytesPerS ?? meanOf(trace)))
  }
  const ups = tracesOf(up)
  const downs = tracesOf(down)
  return () => {
    const own = random.next()
    const pick = (traces: readonly RateTrace[]) => traces[Math.floor(own * traces.length)]!
    const fromMs = Math.floor(random.next() * walk.count) * walk.intervalMs
    return { up: pick(ups), down: pick(downs), rttMs, fromMs, lossShare: lossPercent / 100 }
  }
}

const meanOf = ({ bytesPerS }: RateTrace): number => bytesPerS.reduce((sum, rate) => sum + rate, 0) / bytesPerS.length
