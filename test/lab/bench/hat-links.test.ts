import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { linkShape } from '../../../lab/bench/hat/links.ts'
import { readRateTrace } from '../../../lab/cluster/net-trace.ts'
import { tempDir } from '../../support/temp-dir.ts'

const conditions = { stateBytes: 256, rttMs: 20, jitterMs: 5 }
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

describe("a device's link", () => {
  it("has the paper's rates, scaled to the bytes of a state, and half of the round-trip time in each direction", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 }), fc.integer(), (group, seed) => {
        const { up, down } = linkShape(group, conditions, seededRandom(seed))
        const scale = 256 / 8_192
        for (const rate of up.rates.bytesPerS) expect(rate >= 5e6 * scale && rate <= 10e6 * scale).toBe(true)
        for (const rate of down.rates.bytesPerS) expect(rate >= 10e6 * scale && rate <= 15e6 * scale).toBe(true)
        for (const { delayMs, jitterMs } of [up, down]) expect({ delayMs, jitterMs }).toEqual({ delayMs: 10, jitterMs: 2.5 })
      }),
    )
  })

  it('is faster near the access point than far from it', () => {
    const [near, middle, far] = [0, 1, 2].map((group) => mean(linkShape(group, conditions, seededRandom(1)).up.rates.bytesPerS))
    expect(near! > middle! && middle! > far!).toBe(true)
  })

  it('takes the shape of a recorded trace, from a random start', async () => {
    using dir = tempDir()
    const file = join(dir.path, 'trace.txt')
    writeFileSync(file, '1.0\t80.0\n2.0\t240.0\n\n3.0\t160.0\n')
    const recorded = await readRateTrace(file)
    expect(recorded).toEqual({ intervalMs: 1_000, bytesPerS: [10e6, 30e6, 20e6] })
    const { up } = linkShape(0, { ...conditions, recorded }, seededRandom(1))
    const [low, middle, high] = [...up.rates.bytesPerS].sort((a, b) => a - b)
    expect([middle! / low!, high! / low!].map((ratio) => ratio.toFixed(6))).toEqual(['2.000000', '3.000000'])
    expect(mean(up.rates.bytesPerS)).toBeCloseTo((7.5e6 * 256) / 8_192, 3)
  })
})

describe('a file that is not a trace', () => {
  it.each(['', 'seconds rate\n1 fast\n', '1.0 0\n2.0 0\n'])('is rejected: %j', async (text) => {
    using dir = tempDir()
    const file = join(dir.path, 'trace.txt')
    writeFileSync(file, text)
    await expect(readRateTrace(file)).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringContaining(file) })
    await expect(readRateTrace(join(dir.path, 'none'))).rejects.toMatchObject({ code: 'REQUEST_INVALID' })
  })
})
