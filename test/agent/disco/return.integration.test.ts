import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { startAgent } from '../../../agent/agent.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { pacedSmallModel } from '../../../lab/baselines/paced-model.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { startShapedLink } from '../../../lab/cluster/shaped-link.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { ask, linked, sourcesOf, stream } from '../../support/asking-agent.ts'
import { shared } from '../../support/shared.ts'

const world = shared(startAgentWorld)
let slm: string
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
})

describe('an answer whose link fails and returns', () => {
  it('goes on with the small model, and then with HAT again', async () => {
    const slow = { rates: { intervalMs: 1_000, bytesPerS: [1e6] }, delayMs: 25, jitterMs: 0 }
    await using link = await startShapedLink({
      target: portOf(world.bridge.dataUrl),
      shape: { up: slow, down: slow },
      random: seededRandom(1),
    })
    await using relay = await startRelay(link.port)
    const dataUrl = through(relay, world.bridge.dataUrl)
    const settings = { apiPort: 0, threads: 1, logLevel: 'silent', patienceS: 0.2 } as const
    const draft = { drafter: 'none' } as const
    const agent = await startAgent(
      {
        ...settings,
        bridges: [world.bridge.mqttUrl],
        id: 'moving',
        stateDir: `${world.dir}/moving`,
        bundle: world.bundle,
        slms: [slm],
        dataUrl,
        reconnectMaxS: 1,
        draft,
      },
      systemClock,
      undefined,
      { openSmall: pacedSmallModel({ stepMs: 70, rowMs: 0 }) },
    )
    onTestFinished(() => agent.close())
    await linked(agent)
    await ask(agent, {}, { max_tokens: 1 })
    const answer = stream(agent, { fallback: 'slm' }, { max_tokens: 70, ignore_eos: true })
    await sleep(500)
    relay.target = 1
    relay.cut()
    // Several times the patience: timers of a busy machine are late.
    await sleep(1_200)
    relay.target = link.port
    const { report } = await answer
    expect(sourcesOf({ report })).toEqual(['hat', 'slm', 'hat'])
    expect(report.disco.migrations).toMatchObject([
      { reason: 'failure', to: 'device', succeeded: true },
      { reason: 'return', to: 'server', succeeded: true },
    ])
    expect(report.fallback).toMatchObject({ code: 'LINK_LOST' })
    expect(report.sources.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(70)
  })
})
