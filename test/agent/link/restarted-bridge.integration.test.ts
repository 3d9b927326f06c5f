import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import { freePort } from '../../../lab/cluster/free-port.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

it('a device whose data plane is back before MQTT follows what the bridge announces then', async () => {
  await using world = await startAgentWorld({ bridge: { id: 'unused' } })
  using other = await tinyBundle({})
  const ports = { mqttPort: await freePort(), httpPort: await freePort() }
  await using data = await startRelay(ports.httpPort)
  const settings: BridgeSettings = {
    id: 'bridge-x',
    bundle: world.bundle,
    stateDir: join(world.dir, 'bridge-x'),
    dataUrl: `ws://127.0.0.1:${data.port}/v1/data`,
    ...ports,
  }
  let bridge = await startTestBridge(settings)
  await using mqtt = await startRelay(portOf(bridge.mqttUrl))
  try {
    const { apiUrl } = await world.startAgent({ id: 'held-back', bridges: [through(mqtt, bridge.mqttUrl)], reconnectMaxS: 1 })
    const ready = async () => (await fetch(`${apiUrl}/ready`)).json()
    const isWelcome = () => {
      const last = data.connections.at(-1)
      return last?.isOpen === true && Buffer.concat(last.down).includes('welcome')
    }
    const ask = async () => {
      const body = JSON.stringify({ prompt: [5, 6, 7], max_tokens: 2 })
      return (await fetch(`${apiUrl}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body }))
        .status
    }
    /** MQTT is held back until the data plane has returned. */
    const restart = async (bundle: string) => {
      mqtt.target = 1
      mqtt.cut()
      await bridge.close()
      bridge = await startTestBridge({ ...settings, bundle })
      await expect.poll(isWelcome).toBe(true)
      mqtt.target = ports.mqttPort
    }
    await expect.poll(ask).toBe(200)
    await restart(other.path)
    await expect.poll(ready).toEqual({ status: 'not ready', reasons: ['BUNDLE_MISMATCH'] })
    await restart(world.bundle)
    await expect.poll(ready).toEqual({ status: 'ready', reasons: [] })
    expect(await ask()).toBe(200)
  } finally {
    await bridge.close()
  }
})
