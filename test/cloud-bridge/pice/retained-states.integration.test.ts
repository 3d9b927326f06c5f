import { describe, expect, it } from 'vitest'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { mosquittoMissing, mqttClient, startMosquitto } from '../../support/broker.ts'
import { answerOf } from '../../support/instructed-upstream.ts'
import { startSketchingBridge } from '../../support/sketching-bridge.ts'

const yesterday = new Date(Date.now() - 86_400_000).toISOString()

describe.skipIf(mosquittoMissing())('a broker that has retained the states of yesterday', () => {
  it('makes no answer wait for devices that have gone; one that is there expands', async () => {
    await using mosquitto = await startMosquitto()
    const client = await mqttClient(mosquitto.url, 'yesterday')
    for (const device of ['a', 'b', 'c']) {
      const state = { v: 1, state: 'ready', birth: 1, at: yesterday, jobs: ['pice.expand'], heartbeatS: 30 }
      await client.publishAsync(deviceTopic('default', device, 'state'), JSON.stringify(state), { qos: 1, retain: true })
    }
    await client.endAsync()
    await using world = await startSketchingBridge(undefined, { broker: { url: mosquitto.url } })
    await expect
      .poll(async () => (await (await fetch(`${world.bridge.httpUrl}/v1/devices/c`)).text()).includes('"ready"'))
      .toBe(true)
    const begunMs = performance.now()
    const alone = await world.ask({}, 'auto')
    expect(alone.pice).toMatchObject({ mode: 'full' })
    expect(performance.now() - begunMs).toBeLessThan(5_000)
    await world.device('d', (run) => run.succeed())
    const helped = await world.ask()
    expect(helped.text).toBe(answerOf(['d', 'd', 'd']))
  })
})
