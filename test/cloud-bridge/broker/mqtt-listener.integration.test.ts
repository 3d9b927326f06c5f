import { once } from 'node:events'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type MqttListener, startMqttListener } from '../../../cloud-bridge/broker/mqtt-listener.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'

let served: Duplex[]
let listener: MqttListener
beforeEach(async () => {
  served = []
  listener = await startMqttListener({
    host: '127.0.0.1',
    port: 0,
    authRequired: false,
    serve: (transport) => void served.push(transport),
    clock: systemClock,
    logger: silentLogger(),
  })
})
afterEach(() => listener.close())

const open = async () => {
  const socket = connect(Number(new URL(listener.url).port), '127.0.0.1')
  await once(socket, 'connect')
  return socket
}

it('serves a connection from its first bytes on, all of them', async () => {
  const socket = await open()
  socket.write('CONN')
  await expect.poll(() => served.length).toBe(1)
  let text = ''
  served[0]!.on('readable', () => {
    for (let bytes = served[0]!.read() as Buffer | null; bytes; bytes = served[0]!.read() as Buffer | null) text += bytes
  })
  socket.write('ECT')
  await expect.poll(() => text).toBe('CONNECT')
  socket.destroy()
})

it.each(['end', 'destroy', 'resetAndDestroy'] as const)(
  'makes no client of a silent connection, and closes it at its %s',
  async (how) => {
    const silent = await open()
    silent[how]()
    silent.resume()
    await expect.poll(() => silent.closed).toBe(true)
    const later = await open()
    later.write('x')
    await expect.poll(() => served.length).toBe(1)
    later.destroy()
  },
)
