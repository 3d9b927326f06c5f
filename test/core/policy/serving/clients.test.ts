import { describe, expect, it } from 'vitest'
import { createServingPolicy } from '../../../../lab/baselines/serving-policies.ts'
import { simulate, type TestEngine } from '../../../support/serving-simulation.ts'

/** Holds about 16 streams. */
const engine: TestEngine = {
  step: { rows: 256, streams: 8 },
  stepMs: (rows) => 10 + 2 * rows,
  kvBytes: (rows) => 2 ** Math.ceil(Math.log2(Math.max(64, rows))),
  memoryBytes: 16 * 256,
  tokensPerS: 300,
  prefillSPerRow: 0.002,
}
const flood = (count: number, fields: object = {}) =>
  Array.from({ length: count }, (_, at) => ({
    ...{ atMs: at / 10, promptRows: 60, tokens: 150, tokensPerS: 5, client: 'flood' },
    ...fields,
  }))
const honest = (count: number, atMs: number) =>
  Array.from({ length: count }, () => ({ atMs, promptRows: 40, tokens: 60, tokensPerS: 5, client: 'honest' }))

/** Tokens of the flood from when the honest client comes until all its answers have begun, and until all have ended. */
function floodTokens(policy: Parameters<typeof createServingPolicy>[0], tier: Partial<TestEngine>, fields: object) {
  const requests = [...flood(80, fields), ...honest(8, 500)]
  const created = createServingPolicy(policy, { promptRows: 64, minPromptRows: 16 })
  const { sentMs } = simulate(created, { ...engine, ...tier }, requests)
  const all = sentMs.slice(0, 80).flat()
  const until = (endedMs: number) => all.filter((at) => at > 500 && at <= endedMs).length
  const own = sentMs.slice(80)
  return {
    begun: until(Math.max(...own.map((times) => times[0]!))),
    ended: until(Math.max(...own.map((times) => times.at(-1)!))),
  }
}

const floods = [{}, { tokens: 180, promptRows: 10 }, { promptRows: 180, tokens: 20 }]
/** What the honest client's answers have, and the engine's 16 streams at once. */
const fairTokens = 8 * 60 + 16 * 60

describe.each(['decode-first', 'fcfs', 'chunked'] as const)('%s', (policy) => {
  it.each(floods)(
    'gives a client in the midst of a flood of another about as many tokens, until it has all of its own: %o',
    (fields) => {
      expect(floodTokens(policy, {}, fields).ended).toBeLessThan(fairTokens)
    },
  )
})

describe('tokenflow', () => {
  const slow = { budgetBytes: 8_192, loadBytesPerS: 50_000 }

  it.each(floods)(
    'begins the answers of a client in the midst of a flood of another before the flood has had its share: %o',
    (fields) => {
      expect(floodTokens('tokenflow', { slow }, fields).begun).toBeLessThan(fairTokens / 2)
    },
  )

  it.each(floods)('as far as preempted answers may be computed again, without a slow tier, too: %o', (fields) => {
    expect(floodTokens('tokenflow', {}, fields).begun).toBeLessThan(2 * fairTokens)
  })
})
