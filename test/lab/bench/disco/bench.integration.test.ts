import { describe, expect, it } from 'vitest'
import { replayAll } from '../../../../lab/bench/disco/replay-all.ts'
import { brim } from '../../../support/brim.ts'
import { captureIo } from '../../../support/captured-io.ts'

const latencies = Array.from({ length: 20 }, (_, i) => ({ ttftMs: 300 + 100 * i, tokenMs: 20 }))
const shapes = [{ promptTokens: 12, outputTokens: 30 }]
const plan = {
  seeds: 2,
  ttft: { alpaca: { requests: 5, budgets: [0.5] }, azure: { requests: 2, budgets: [0.5] } },
  cost: { requests: 1, budgets: [1] },
  liveRequests: 0,
}

describe('brim bench disco', () => {
  it('replays every trace with every seed in threads', async () => {
    const { io } = captureIo()
    const traces = ['a', 'b'].map((name) => ({ name, latencies, failed: 0 }))
    const runs = await replayAll({ plan, data: { traces, shapes: { alpaca: shapes, azure: shapes } } }, { io, progress: io.err })
    expect(new Set(runs.map(({ trace }) => trace))).toEqual(new Set(['a', 'b']))
    for (const run of runs) if (run.measured === 'ttft') expect(run.meanMs.split(' ')).toHaveLength(2)
  })

  it('names the data that it does not find', async () => {
    const { io } = captureIo()
    const command = brim(['bench', 'disco', '--quick', '--despite-load', '--data=/nonexistent'], io)
    await expect(command).rejects.toMatchObject({ code: 'REQUEST_INVALID', hint: expect.stringContaining('--data') })
  })

  it('names the document whose replay it cannot take over', async () => {
    const { io } = captureIo()
    const command = brim(['bench', 'disco', '--despite-load', '--replay-from=/nonexistent.json'], io)
    await expect(command).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringContaining('/nonexistent.json'),
    })
  })

  it('rejects a number of seeds that is none', async () => {
    const { io } = captureIo()
    await expect(brim(['bench', 'disco', '--seeds=0'], io)).rejects.toMatchObject({ code: 'USAGE' })
  })
})
