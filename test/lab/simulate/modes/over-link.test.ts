import { describe, expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'

/** One answer of the cloud's model. @param groups whose device asks; none: a client of the cloud */
function run(groups: readonly string[], bytesPerS: number, mode = 'cloud') {
  return runScenario(
    Scenario.parse({
      name: 'test',
      cloud: { model: 'llama3-8b', gpu: 'a100-80' },
      devices: [{ name: 'phones', count: 1, board: 'pixel-7-pro', link: { up: bytesPerS, down: bytesPerS, rttMs: 100 } }],
      workload: {
        requests: 1,
        arrivals: { kind: 'burst' },
        promptTokens: 1_000,
        outputTokens: 20,
        modes: [{ mode, groups, name: 'asked' }],
      },
    }),
  )
}

describe('what a device asks the cloud', () => {
  it('takes the way up and the way down longer than what is asked there, and costs the device its radio', async () => {
    const [there, far, slow] = [await run([], 1e6), await run(['phones'], 1e6), await run(['phones'], 1e4)]
    const ttft = ({ modes }: typeof there) => modes.asked!.ttftMs.mean
    // 4.7 kB up, 0.3 kB down.
    expect(ttft(far) - ttft(there)).toBeCloseTo(100 + 4.7 + 0.3, 0)
    expect(ttft(slow) - ttft(there)).toBeCloseTo(100 + 470 + 30, 0)
    expect(far.all.tokens).toBe(20)
    expect([there, far].map(({ all }) => all.work.joules > 0)).toEqual([false, true])
    expect(far.devices.phones!.downBytes).toBeGreaterThan(20 * 300)
  })

  it('sends sketched answers the same way', async () => {
    const [there, far] = [await run([], 1e6, 'pice'), await run(['phones'], 1e6, 'pice')]
    expect(far.all.latencyMs.mean).toBeGreaterThan(there.all.latencyMs.mean + 100)
    expect(far.all.tokens).toBe(20)
  })

  it('counts reading time and the answers whose prompts the server has computed', async () => {
    const { all } = await run(['phones'], 1e6)
    expect([all.readingS, all.atServer, all.answered]).toEqual([4, 1, 1])
  })
})
