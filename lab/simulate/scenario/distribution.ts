import { z } from 'zod'
import type { Random } from '../../../core/base/random.ts'

const positive = z.number().positive()

/** A number of each request or device; a plain number is a constant. */
export const Distribution = z
  .union([
    z.number().nonnegative(),
    z
      .strictObject({ kind: z.literal('uniform'), min: z.number().nonnegative(), max: positive })
      .refine(({ min, max }) => min <= max, 'must have a min that is not above its max'),
    z.strictObject({
      kind: z.literal('normal'),
      mean: positive,
      deviation: z.number().nonnegative(),
      min: z.number().default(1),
    }),
    z.strictObject({ kind: z.literal('lognormal'), median: positive, sigma: positive, max: positive.optional() }),
    z.strictObject({ kind: z.literal('exponential'), mean: positive }),
    z
      .strictObject({
        kind: z.literal('mixture'),
        parts: z.array(z.strictObject({ share: positive, median: positive, sigma: positive })).min(1),
      })
      .describe('of log-normal distributions, as of a body and a heavy tail'),
    z.strictObject({ kind: z.literal('samples'), values: z.array(z.number().nonnegative()).min(1) }),
  ])
  .meta({ id: 'Distribution' })
export type Distribution = z.output<typeof Distribution>

export function draw(distribution: Distribution, random: Random): number {
  if (typeof distribution === 'number') return distribution
  switch (distribution.kind) {
    case 'uniform':
      return distribution.min + random.next() * (distribution.max - distribution.min)
    case 'normal':
      return Math.max(distribution.min, distribution.mean + distribution.deviation * standardNormal(random))
    case 'lognormal':
      return Math.min(
        distribution.max ?? Number.POSITIVE_INFINITY,
        distribution.median * Math.exp(distribution.sigma * standardNormal(random)),
      )
    case 'mixture': {
      const { parts } = distribution
      let left = random.next() * parts.reduce((sum, { share }) => sum + share, 0)
      const { median, sigma } =
        parts.find(({ share }) => {
          left -= share
          return left < 0
        }) ?? parts.at(-1)!
      return median * Math.exp(sigma * standardNormal(random))
    }
    case 'exponential':
      return -Math.log(1 - random.next()) * distribution.mean
    case 'samples':
      return distribution.values[Math.floor(random.next() * distribution.values.length)]!
  }
}

/** Box and Muller. */
function standardNormal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
}
