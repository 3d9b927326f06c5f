import { once } from 'node:events'
import { connectAsync } from 'mqtt'
import { expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { createDataPlane } from '../../cloud-bridge/link/data-plane.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { dataPath } from '../../core/wire/protocol/messages.ts'
import { startBroker } from '../support/broker.ts'
import { startTestHttp } from '../support/http.ts'
import { recordingLogger } from '../support/recording-logger.ts'

it('logs the address of an MQTT client whose subscription it refuses', async () => {
  const { logger, lines } = recordingLogger('warn')
  await using broker = await startBroker({ logger })
  const client = await connectAsync(broker.url, { clientId: 'device-jetson-01', protocolVersion: 4 })
  await client.subscribeAsync('brim/v1/default/device/jetson-02/jobs').catch(() => {})
  await client.endAsync(true)
  expect(lines).toContainEqual(expect.objectContaining({ msg: 'MQTT subscription refused', address: '127.0.0.1' }))
})

it('logs the address of a data connection without a valid token, and of a device with the token of another', async () => {
  const { logger, lines } = recordingLogger('warn')
  const plane = createDataPlane({
    sessions: { closePeer: async () => {} } as never,
    bridge: 'bridge-1',
    modelId: 'm',
    draftLimit: 8,
    maxFrameBytes: 1_000,
    heartbeatMs: 15_000,
    helloTimeoutMs: 10_000,
    gate: { authRequired: true, subjectOf: (token) => (token === 'right' ? 'device-jetson-01' : undefined) },
    clock: systemClock,
    logger,
  })
  const http = await startTestHttp([], { upgrades: { [dataPath]: plane.upgrade }, logger })
  const open = (token: string) =>
    new WebSocket(`${http.url.replace('http', 'ws')}${dataPath}`, { headers: { authorization: `Bearer ${token}` } })
  try {
    const refused = open('wrong')
    await once(refused, 'error')
    const other = open('right')
    await once(other, 'open')
    other.send(JSON.stringify({ v: 1, type: 'hello', device: 'jetson-02', birth: 1 }))
    await once(other, 'close')
    expect(lines).toMatchObject([
      { msg: 'data connection refused: no valid token', address: '127.0.0.1' },
      { msg: 'device refused: its token belongs to another device', address: '127.0.0.1', device: 'jetson-02' },
    ])
  } finally {
    await plane.close()
    await http.close()
  }
})
