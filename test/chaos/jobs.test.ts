import { describe, expect, it } from 'vitest'
import { benchChaos, type ChaosRun, planKills } from '../../lab/bench-chaos.ts'
import { buildSlmBundle, buildTextBundle } from '../support/agent-world.ts'
import { captureIo } from '../support/captured-io.ts'
import { tempDir } from '../support/temp-dir.ts'

describe('the plan of faults', () => {
  it('is told by its seed, and strikes agents, bridge and links', () => {
    const plan = planKills(50, 3, 2)
    expect(planKills(50, 3, 2)).toEqual(plan)
    expect(planKills(50, 4, 2)).not.toEqual(plan)
    expect(new Set(plan.map(({ victim }) => victim))).toEqual(new Set(['agent', 'bridge', 'link']))
    expect(new Set(plan.map(({ agent }) => agent))).toEqual(new Set([0, 1]))
  })
})

describe('jobs, while agents and bridge are killed and links are cut', () => {
  it('are neither lost nor done twice nor stuck, and have the same answers', { timeout: 180_000 }, async () => {
    using dir = tempDir()
    const { io, err } = captureIo({ env: { PATH: '' } })
    const seed = 3
    const bundles = { bundle: await buildTextBundle(dir.path), slm: await buildSlmBundle(dir.path) }
    const { summary, runs } = await benchChaos({ ...bundles, kills: 6, seed }, { quick: true, io, progress: io.err })
    const seen = `seed ${seed}\n${err()}\n${JSON.stringify(runs.filter((run) => (run as ChaosRun).state !== 'SUCCEEDED'))}`
    expect(summary, seen).toMatchObject({ kills: 6, lost: 0, doubled: 0, stuck: 0, different: 0 })
    expect(summary.jobs).toBeGreaterThan(6)
    expect(summary.bridgeKills).toBeGreaterThan(0)
    expect(summary.agentKills).toBeGreaterThan(0)
  })
})
