import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { readAdmin } from '../../../cloud-bridge/broker/broker-secrets.ts'
import type { NatsAdmin } from '../../../cloud-bridge/broker/nats-admin.ts'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import { freePort } from '../../../lab/cluster/free-port.ts'
import { JobClient } from '../../../lab/cluster/job-client.ts'
import { startPostgres } from '../../../lab/cluster/postgres.ts'
import { portOf, startRelay } from '../../../lab/cluster/relay.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { mosquittoMissing, natsMissing, startMosquitto } from '../../support/broker.ts'
import { startNats } from '../../support/nats.ts'
import { postgresMissing } from '../../support/postgres.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const isSkipped = postgresMissing() || mosquittoMissing() || natsMissing()

describe.skipIf(isSkipped)('a standby that takes the lease and cannot be the primary', () => {
  const dir = shared(tempDir)
  const postgres = shared(() => startPostgres())
  const start = (fleet: string, node: string, settings: Partial<BridgeSettings>) =>
    startTestBridge({
      ...{ stateDir: join(dir.path, fleet, node), upstream: { url: 'http://127.0.0.1:9/v1', model: 'none' } },
      ...{ mqttPort: undefined, fleet, database: { url: postgres.url, node }, ...settings },
    })
  /** Listens on a port in the turn of the event loop in which it becomes free. */
  async function occupy(port: number) {
    for (;;) {
      const server = createServer()
      const isBound = await once(server.listen(port, '127.0.0.1'), 'listening').then(
        () => true,
        () => false,
      )
      if (isBound) return { [Symbol.asyncDispose]: () => new Promise<void>((done) => server.close(() => done())) }
      await setImmediate()
    }
  }

  it('gives it back where its port is taken: another one has what was acknowledged, and it is a standby again later', async () => {
    await using broker = await startMosquitto()
    const open = { broker: { url: broker.url }, auth: false }
    const a = await start('ports', 'a', open)
    const port = await freePort()
    await using b = await start('ports', 'b', { ...open, httpPort: port })
    expect(b.status).toMatch(/^standby, primary a/)
    const client = (url: string) => new JobClient(url, new AbortController().signal, { maxUnreachableMs: 30_000 })
    const id = await client(b.httpUrl).submit({ kind: 'slm.generate', input: { prompt: 'Who has it?' } })

    const occupying = occupy(port)
    await a.close()
    const program = await occupying
    await expect.poll(() => b.status).toMatch(/^no role now: the HTTP server cannot listen on .*: the port is in use/)
    await using c = await start('ports', 'c', open)
    await expect.poll(() => c.status).toMatch(/^ready/)
    expect(await client(c.httpUrl).show(id)).toMatchObject({ state: 'QUEUED' })

    await program[Symbol.asyncDispose]()
    await expect.poll(() => b.status).toMatch(/^standby, primary c/)
    expect(await client(b.httpUrl).show(id)).toMatchObject({ state: 'QUEUED' })
  })

  it('gives it back where it does not reach the broker: another one takes it, and later it can be the primary', async () => {
    await using nats = await startNats(1)
    const admin = readAdmin(nats.adminFile) as NatsAdmin
    const natsPort = portOf(admin.servers[0]!)
    await using relay = await startRelay(await freePort())
    const throughRelay = join(dir.path, 'admin')
    writeFileSync(throughRelay, JSON.stringify({ ...admin, servers: [`nats://127.0.0.1:${relay.port}`] }), { mode: 0o600 })
    const at = (adminFile: string) => ({ broker: { url: nats.url, adminFile } })
    const a = await start('brokers', 'a', at(nats.adminFile))
    await using b = await start('brokers', 'b', at(throughRelay))
    expect(b.status).toMatch(/^standby, primary a/)

    await a.close()
    await expect.poll(() => b.status).toMatch(/^no role now: the NATS cluster .* cannot be reached/)
    const c = await start('brokers', 'c', at(nats.adminFile))
    await expect.poll(() => c.status).toMatch(/^ready/)
    await expect.poll(() => b.status).toMatch(/^standby, primary c/)

    relay.target = natsPort
    await c.close()
    await expect.poll(() => b.status).toMatch(/^ready/)
  })
})
