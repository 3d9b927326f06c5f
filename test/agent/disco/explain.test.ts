import { describe, expect, it } from 'vitest'
import { explainWays, type ForeseenWay } from '../../../agent/disco/explain.ts'

type Explained = Parameters<typeof explainWays>[0]

/** A way whose answer begins after 100 ms and takes `decodeMs` from there. */
const way = (spender: 'hat' | 'server', decodeMs: number, isKnown = true, of?: 'bridge' | 'sketches') =>
  ({
    candidate: { spender, ...(of && { way: of }), endpoint: { model: { name: of ?? spender } } },
    forecast: { name: spender, isKnown, firstMs: 100, endMs: 100 + decodeMs, waitMs: 100, dollars: undefined },
  }) as unknown as ForeseenWay

function reasonOfHat(...ways: readonly ForeseenWay[]): string {
  const remotes = ways.map(({ candidate }) => ({ candidate }))
  const plan = { dispatch: { local: 0, remote: 0 }, sides: {} } as unknown as Explained['plan']
  const request = { prompt: [] } as unknown as Explained['request']
  const explained: Explained = { ways, mode: 'auto', request, allowed: { remotes }, sides: {}, plan, exhausted: undefined }
  return explainWays(explained).find((each) => each.way === 'hat')!.reason
}

describe('the explanation of a planned answer', () => {
  it('says how HAT compares with the cloud alone, and what it keeps where it is slower', () => {
    expect(reasonOfHat(way('hat', 3_000), way('server', 1_000, true, 'bridge'))).toMatch(
      /3\.0 times slower .* but the text stays here$/,
    )
    expect(reasonOfHat(way('hat', 1_000), way('server', 2_500))).toMatch(/2\.5 times as fast per token as the cloud alone$/)
  })

  it('compares with the model itself, not with its sketches', () => {
    const ways = [way('hat', 2_000), way('server', 100, true, 'sketches'), way('server', 1_000, true, 'bridge')]
    expect(reasonOfHat(...ways)).toContain('2.0 times slower')
  })

  it('compares nothing that was not measured', () => {
    expect(reasonOfHat(way('hat', 3_000), way('server', 1_000, false))).not.toContain('cloud alone')
    expect(reasonOfHat(way('hat', 3_000, false), way('server', 1_000))).not.toContain('cloud alone')
    expect(reasonOfHat(way('hat', 3_000))).not.toContain('cloud alone')
    expect(reasonOfHat(way('hat', 3_000), way('server', 0))).not.toContain('cloud alone')
  })
})
