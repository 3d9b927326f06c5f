import { expect, it } from 'vitest'
import { startAgentWorld } from '../../support/agent-world.ts'
import { mqttClient } from '../../support/broker.ts'

it('a bridge without telemetry deltas lets every reader of the topic understand each sample', async () => {
  await using world = await startAgentWorld({ adapter: false, bridge: { telemetryDeltas: false } })
  const watcher = await mqttClient(world.bridge.mqttUrl, 'telegraf')
  const samples: Record<string, unknown>[] = []
  watcher.on('message', (_, payload) => samples.push(JSON.parse(payload.toString())))
  await watcher.subscribeAsync('brim/v1/default/device/orin/telemetry')
  await world.startAgent({ id: 'orin', telemetryS: 1 })
  await expect.poll(() => samples.length).toBeGreaterThanOrEqual(3)
  for (const sample of samples) {
    expect(sample).not.toHaveProperty('base')
    expect(sample).toMatchObject({ speed: expect.any(Object), load: expect.any(Object), device: expect.any(Object) })
  }
  await watcher.endAsync(true)
})
