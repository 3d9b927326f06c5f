import type { Random } from '../../../core/kit/base/random.ts'
import { type RateTrace, randomWalk, scaledTo, shifted } from '../../cluster/rate-trace.ts'
import type { LinkShape } from '../../cluster/shaped-link.ts'

/** Bytes of the paper's hidden state, for which its rates hold: 4,096 values in fp16. */
const paperStateBytes = 8_192
/** The paper's range of rates in MB/s. */
const paperRates = { up: [5, 10], down: [10, 15] } as const
/** Near, middle and far from the access point: the part of the range that each group's random walk covers. */
const groups = [
  [0.5, 1],
  [0.25, 0.75],
  [0, 0.5],
] as const
const intervalMs = 500
/** Five minutes, after which the trace repeats. */
const intervals = 600

export interface LinkConditions {
  /** Bytes of one position's hidden state. */
  readonly stateBytes: number
  readonly rttMs: number
  /** Of the round trip, ± ms. */
  readonly jitterMs: number
  /** A trace whose shape replaces the random walks, scaled to the mean of the paper's rates. */
  readonly recorded?: RateTrace | undefined
}

/** The link of a device in one of the three groups. */
export function linkShape(group: number, conditions: LinkConditions, random: Random): LinkShape {
  const { stateBytes, rttMs, jitterMs, recorded } = conditions
  const scale = (1e6 * stateBytes) / paperStateBytes
  const [from, to] = groups[group % groups.length]!
  const direction = ([low, high]: readonly [number, number]) => {
    const rates = recorded
      ? shifted(scaledTo(recorded, ((low + high) / 2) * scale), Math.floor(random.next() * recorded.bytesPerS.length))
      : randomWalk(
          { lowBytesPerS: (low + from * (high - low)) * scale, highBytesPerS: (low + to * (high - low)) * scale },
          intervalMs,
          intervals,
          random,
        )
    return { rates, delayMs: rttMs / 2, jitterMs: jitterMs / 2 }
  }
  return { up: direction(paperRates.up), down: direction(paperRates.down) }
}
