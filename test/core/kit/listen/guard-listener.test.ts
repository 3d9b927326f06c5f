import { EventEmitter } from 'node:events'
import type { Server, Socket } from 'node:net'
import { expect, it, vi } from 'vitest'
import { guardListener } from '../../../../core/kit/listen/guard-listener.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { silentLogger } from '../../../support/silent-logger.ts'

/** A connection from always the same port. */
const connection = () =>
  Object.assign(new EventEmitter(), {
    remoteAddress: '192.0.2.7',
    remotePort: 4_000,
    localAddress: '192.0.2.1',
    destroy: vi.fn(),
  })
const asSocket = (socket: ReturnType<typeof connection>) => socket as unknown as Socket

it('a client that connects again from the same port is no stranger once its former connection is closed', async () => {
  const [server, clock] = [new EventEmitter(), fakeClock()]
  const limits = { total: 10, perNetwork: 10, waiting: 10, firstRequestMs: 1_000 }
  const guard = guardListener(server as Server, { limits, what: 'test', clock, logger: silentLogger() })
  const [former, latter] = [connection(), connection()]
  server.emit('connection', former)
  server.emit('connection', latter)
  former.emit('close')
  guard.beginRequest(asSocket(latter))
  await clock.advance(2_000)
  expect(latter.destroy).not.toHaveBeenCalled()
})
