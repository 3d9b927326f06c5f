import { z } from 'zod'
import type { Random } from '../../../core/kit/base/random.ts'

const positive = z.number().positive()

/** A number of each request or device; a plain number is a constant. */
export const Distribution = z
  .union([
    z.number().nonnegative().describe('the same for all'),
    z
      .strictObject({
        kind: z.literal('uniform').describe('any number between two, equally likely'),
        min: z.number().nonnegative().describe('lowest value'),
        max: positive.describe('highest value'),
      })
      .refine(({ min, max }) => min <= max, 'must have a min that is not above its max'),
    z.strictObject({
      kind: z.literal('normal').describe('normal distribution, cut off below'),
      mean: positive.describe('mean'),
      deviation: z.number().nonnegative().describe('standard deviation'),
      min: z.number().default(1).describe('lower values count as this one'),
    }),
    z.strictObject({
      kind: z.literal('lognormal').describe('normal distribution of the logarithm: many small values, a long tail'),
      median: positive.describe('half of the values are above it'),
      sigma: positive.describe('standard deviation of the natural logarithm'),
      max: positive.optional().describe('higher values count as this one'),
    }),
    z.strictObject({
      kind: z.literal('exponential').describe('exponential distribution'),
      mean: positive.describe('mean'),
    }),
    z
      .strictObject({
        kind: z.literal('mixture').describe('one of several log-normal distributions'),
        parts: z
          .array(
            z.strictObject({
              share: positive.describe('weight of this distribution among all'),
              median: positive.describe('half of its values are above it'),
              sigma: positive.describe('standard deviation of the natural logarithm'),
            }),
          )
          .min(1)
          .describe('the distributions'),
      })
      .describe('of log-normal distributions, as of a body and a heavy tail'),
    z.strictObject({
      kind: z.literal('samples').describe('one of these values, equally likely'),
      values: z.array(z.number().nonnegative()).min(1).describe('the values'),
    }),
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
