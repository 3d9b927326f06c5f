import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import type { Spending } from '../../../core/wire/protocol/spending.ts'
import { startTestApi } from '../../support/api.ts'
import { captureIo } from '../../support/captured-io.ts'
import { runBrim } from '../../support/run-brim.ts'
import { someSpending } from '../../support/spending.ts'

const card = { name: 'none', family: 'llama', parameters: 0, createdBy: 'test', createdAt: '2026-01-01T00:00:00Z' }

async function budgetOf(spending: Spending, ...more: string[]) {
  const endpoint = { model: { name: 'none' }, async *answer() {} }
  const api = await startTestApi({ card }, endpoint, { spending: () => spending })
  try {
    return await runBrim(['agent', 'budget', '--api', api.url, ...more])
  } finally {
    await api.close()
  }
}

describe('brim agent budget', () => {
  it('shows what each side has spent, what is left, and what energy is worth', async () => {
    const { code, out } = await budgetOf(someSpending)
    expect(code).toBe(0)
    expect(out.trim().split('\n')).toEqual([
      'window       24 h; beyond the budget: the other side answers',
      'server       $0.5 of $0.5, $0 left, $0.001 reserved by answers in progress, exhausted for 90 min; 1,200 prompt tokens, 600 tokens of answers',
      '             $0.15 per million prompt tokens, $0.6 per million of answers',
      'small model  1,230 J, no limit; 3,000 prompt tokens, 900 tokens of answers',
      '             0.1 J per prompt token, 0.4 J per token of answers (measured)',
      '             a kWh is worth $90 (by the battery)',
      'HAT          10 prompt tokens, 20 tokens of answers',
      'mode auto    the server may process 30 % of prompt tokens; of 4,000, the small model has processed 75 %, the server 28 %',
    ])
  })

  it('says what is unknown', async () => {
    const { slm, server, auto } = someSpending
    const unknown = {
      ...someSpending,
      server: { ...server, dollars: null, promptDollarsPerToken: null, outputDollarsPerToken: null, waitS: 0 },
      slm: { ...slm, joules: null, energySource: null, prefillJPerToken: null, decodeJPerToken: null, energyReason: 'unknown' },
      auto: { ...auto, promptTokens: 0, deviceShare: null, serverShare: null },
    }
    const { out } = await budgetOf(unknown)
    expect(out).toContain('cost unknown')
    expect(out).toContain('price unknown (--server-price)')
    expect(out).toContain('a kWh is worth $90 (the battery is not readable)')
    expect(out).toContain('no request yet')
  })

  it('prints one JSON document', async () => {
    const { out } = await budgetOf(someSpending, '--json')
    expect(JSON.parse(out)).toEqual(someSpending)
  })

  it('says that no agent responds', async () => {
    const { io, err } = captureIo({})
    expect(await run(['agent', 'budget', '--api', 'http://127.0.0.1:1', '--api-key-file', join('no', 'file')], io)).toBe(2)
    expect(await run(['agent', 'budget', '--api', 'http://127.0.0.1:1'], io)).toBe(3)
    expect(err()).toContain('no agent responds at http://127.0.0.1:1')
  })
})
