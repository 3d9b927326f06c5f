import { describe, expect, it } from 'vitest'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { buildWorld } from '../../../../lab/simulate/run/build-world.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'

const link = { up: 5e6, down: 5e6 }
const scenarioOf = (group: object, { mode = 'local', ...workload }: Record<string, unknown> = {}) =>
  Scenario.parse({
    name: 'world',
    cloud: { model: 'llama3-8b', gpu: 'h100' },
    devices: [{ name: 'all', count: 2, board: 'xiaomi-14', link, smallModels: ['qwen1.5-0.5b'], ...group }],
    workload: {
      requests: 8,
      arrivals: { kind: 'burst' },
      promptTokens: 100,
      outputTokens: 50,
      modes: [{ mode }],
      ...workload,
    },
  })

describe('the devices of a scenario', () => {
  it('are slowed by heat, unless the scenario says otherwise', () => {
    const tookS = (throttles: boolean) => {
      const simulation = new Simulation(1)
      const data = { requests: undefined, rates: new Map(), latencies: undefined, machines: new Map() }
      const { devices } = buildWorld(scenarioOf({ throttles }), simulation, data)
      for (let task = 0; task < 100; task += 1) devices[0]!.processor.run(100, () => {})
      simulation.advance(1_000)
      return simulation.nowMs / 1_000
    }
    expect(tookS(false)).toBeCloseTo(10_000, 6)
    expect(tookS(true)).toBeGreaterThan(12_000)
  })

  it('are as fast as their framework', async () => {
    const board = { board: 'agx-orin-64', smallModels: ['qwen2.5-1.5b'] }
    const tbt = async (memory: number) => (await runScenario(scenarioOf({ ...board, reaches: { memory } }))).all.answerTbtMs.mean
    const ratio = (await tbt(0.5)) / (await tbt(1))
    // Launches take their time all the same.
    expect(ratio).toBeGreaterThan(1.7)
    expect(ratio).toBeLessThanOrEqual(2)
  })
})

describe('the figures of a run', () => {
  it('are of the time from its first request on', async () => {
    const [now, later] = await Promise.all(
      [0, 1_000].map((atS) => runScenario(scenarioOf({}, { arrivals: { kind: 'burst', atS } }))),
    )
    expect(later!.durationS).toBeCloseTo(now!.durationS, 6)
    expect(later!.all.tokensPerS).toBeCloseTo(now!.all.tokensPerS, 6)
  })

  it('say how busy devices and engines were', async () => {
    // Four answers on each of two devices, one after the other.
    const local = await runScenario(scenarioOf({}, { askers: 'idle' }))
    expect(local.devices.all!.busyShare).toBeGreaterThan(0.95)
    expect(local.devices.all!.busyShare).toBeLessThanOrEqual(1)
    const { engines, durationS } = await runScenario(scenarioOf({}, { mode: 'cloud' }))
    expect(engines[0]!.busyShare).toBeCloseTo(engines[0]!.busyS / durationS, 9)
    expect(engines[0]!.busyShare).toBeLessThanOrEqual(1)
  })

  it('count what devices have computed, and send to devices what clients of the cloud ask', async () => {
    const { all } = await runScenario(scenarioOf({}))
    expect([all.work.devicePromptTokens, all.work.deviceOutputTokens]).toEqual([800, 400])
    const ttftOf = async (down: number) => {
      const clients = scenarioOf({ link: { up: 5e6, down } }, { requests: 1, modes: [{ mode: 'local', groups: [] }] })
      return (await runScenario(clients)).all.ttftMs.mean
    }
    // 300 B, and 4.4 B for each of 100 tokens.
    expect((await ttftOf(100)) - (await ttftOf(1e9))).toBeCloseTo(7_400, -1)
  })
})

it('a full answer after foresight has its prompt in the cache', async () => {
  const rows = async (sharesPrefix: boolean) => {
    const scenario = scenarioOf({}, { mode: 'pice' })
    const policies = { ...scenario.policies, pice: { ...scenario.policies.pice, sharesPrefix, begins: false } }
    return (await runScenario({ ...scenario, policies })).engines[0]!.rows
  }
  // All but the last row of each of 8 prompts.
  expect((await rows(false)) - (await rows(true))).toBe(8 * 99)
})
