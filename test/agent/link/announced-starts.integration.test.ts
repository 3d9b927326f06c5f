import { join } from 'node:path'
import { expect, it } from 'vitest'
import { BridgeLink } from '../../../agent/link/bridge-link.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { memoryDisclosures } from '../../../lab/bench/hat/memory-disclosures.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('a device learns from a bridge how long its own model takes to begin', async () => {
  using dir = tempDir()
  const bundle = await buildTextBundle(dir.path, { adapter: false })
  await using bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge') })
  const link = new BridgeLink({
    url: bridge.mqttUrl,
    credentials: undefined,
    fleet: 'default',
    device: 'jetson-01',
    birth: 1,
    instance: 'a',
    agent: '0',
    modelId: bridge.modelId,
    speed: new DeviceSpeed(),
    disclosures: memoryDisclosures(silentLogger()),
    heartbeatS: 30,
    reconnectMaxS: 1,
    clock: systemClock,
    random: seededRandom(1),
    logger: silentLogger(),
  })
  link.start([])
  try {
    await expect.poll(() => link.connected).toBe(true)
    expect(link.answerTtftMs).toBeUndefined()
    const startedMs = performance.now()
    const response = await postJson(`${bridge.httpUrl}/v1/completions`, { prompt: 'Where?', max_tokens: 6 })
    expect(response.status).toBe(200)
    const tookMs = performance.now() - startedMs
    await expect.poll(() => link.answerTtftMs?.weight).toBeCloseTo(1)
    expect(link.answerTtftMs?.quantiles.at(-1)).toBeLessThan(tookMs * 1.1)
    expect(link.answerMsPerToken).toBeGreaterThan(0)
    expect(link.answerMsPerToken).toBeLessThan(tookMs * 1.1)
  } finally {
    await link.close()
  }
})
