import { describe, expect, it } from 'vitest'
import { benchChaos, planFaults } from '../../lab/bench/chaos/bench.ts'
import type { ChaosRun } from '../../lab/bench/chaos/report.ts'
import { buildSlmBundle, buildTextBundle } from '../support/agent-world.ts'
import { mosquittoMissing } from '../support/broker.ts'
import { captureIo } from '../support/captured-io.ts'
import { tempDir } from '../support/temp-dir.ts'

describe('the plan of faults', () => {
  it('follows from its seed, and hits agents, bridge and links', () => {
    const plan = planFaults(50, 3, 2, 'embedded')
    expect(planFaults(50, 3, 2, 'embedded')).toEqual(plan)
    expect(planFaults(50, 4, 2, 'embedded')).not.toEqual(plan)
    expect(new Set(plan.map(({ victim }) => victim))).toEqual(new Set(['agent', 'bridge', 'link']))
    expect(new Set(plan.map(({ agent }) => agent))).toEqual(new Set([0, 1]))
    const withBroker = planFaults(50, 3, 2, 'mosquitto')
    expect(new Set(withBroker.map(({ victim }) => victim))).toEqual(new Set(['agent', 'bridge', 'link', 'broker']))
  })
})

const brokers = [
  { broker: 'embedded', seed: 4, kills: 4, missing: false },
  { broker: 'mosquitto', seed: 81, kills: 4, missing: mosquittoMissing() },
] as const

describe.each(brokers)(
  'jobs while agents, bridge and broker ($broker) are killed and links are cut',
  ({ broker, seed, kills, missing }) => {
    it.skipIf(missing)('end exactly once, with the same answers', { timeout: 180_000 }, async () => {
      using dir = tempDir()
      const { io, err } = captureIo({ env: { PATH: '' } })
      const bundles = { bundle: await buildTextBundle(dir.path), slm: await buildSlmBundle(dir.path) }
      const limits = { ...bundles, broker, kills, seed }
      const { summary, runs } = await benchChaos(limits, { quick: true, io, progress: io.err })
      const seen = `seed ${seed}\n${err()}\n${JSON.stringify(runs.filter((run) => (run as ChaosRun).state !== 'SUCCEEDED'))}`
      expect(summary, seen).toMatchObject({ kills, lost: 0, doubled: 0, stuck: 0, different: 0 })
      expect(summary.jobs).toBeGreaterThan(kills)
      expect(summary.bridgeKills).toBeGreaterThan(0)
      expect(summary.agentKills).toBeGreaterThan(0)
      if (broker === 'mosquitto') expect(summary.brokerKills).toBeGreaterThan(1)
    })
  },
)
