import { expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import type { RateTrace } from '../../../../lab/cluster/rate-trace.ts'
import { linksOf } from '../../../../lab/simulate/run/build-links.ts'
import { Link } from '../../../../lab/simulate/scenario/scenario.ts'

const recorded: RateTrace[] = [
  { intervalMs: 1_000, bytesPerS: [100, 300] },
  { intervalMs: 1_000, bytesPerS: [400, 400] },
]
const mean = ({ bytesPerS }: RateTrace) => bytesPerS.reduce((sum, rate) => sum + rate, 0) / bytesPerS.length

function links(fields: object, count = 40) {
  const next = linksOf(
    Link.parse({ up: 1_000, down: 4_000, ...fields }),
    { rates: new Map([['folder', recorded]]) },
    seededRandom(1),
  )
  return Array.from({ length: count }, next)
}

it('have the rates of their directions, and losses as a share', () => {
  const [link] = links({ rttMs: 30, lossPercent: 5 }, 1)
  expect(link).toMatchObject({ up: { bytesPerS: [1_000] }, down: { bytesPerS: [4_000] }, rttMs: 30, lossShare: 0.05 })
})

it('walk between their rates, each at an offset of its own', () => {
  const made = links({ up: { walk: [1_000, 2_000] } })
  const rates = made.flatMap(({ up }) => up.bytesPerS)
  expect(Math.min(...rates)).toBeGreaterThanOrEqual(1_000)
  expect(Math.max(...rates)).toBeLessThanOrEqual(2_000)
  expect(new Set(made.map(({ fromMs }) => fromMs)).size).toBeGreaterThan(20)
})

it('follow recorded traces, scaled to a mean where the scenario says one', () => {
  const means = (fields: object) => new Set(links(fields).map(({ up }) => Math.round(mean(up))))
  expect(means({ up: { trace: 'folder' } })).toEqual(new Set([200, 400]))
  expect(means({ up: { trace: 'folder', meanBytesPerS: 5_000 } })).toEqual(new Set([5_000]))
})
