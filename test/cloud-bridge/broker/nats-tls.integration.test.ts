import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { Cluster } from '../../../lab/cluster/cluster.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { natsMissing } from '../../support/broker.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { joinFleet } from '../../support/join-fleet.ts'
import { startNats } from '../../support/nats.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url))
/** Processes that trust this authority beside those of the system. */
const trusting = (name: string) => ({ ...process.env, NODE_EXTRA_CA_CERTS: fixture(`${name}.cert`) })

describe.skipIf(natsMissing())('a NATS whose listeners have TLS', () => {
  const dir = shared(tempDir)
  const nats = shared(() => startNats(1, { cert: fixture('first.cert'), key: fixture('first.key') }))
  const bundle = shared(async () => ({ path: await buildTextBundle(dir.path) }))
  const cluster = shared(() => Cluster.create({ bundle: bundle.path, env: trusting('first') }))
  const deceived = shared(() => Cluster.create({ bundle: bundle.path, env: trusting('second') }))
  const startBridge = (on: Cluster) => on.startBridge({ broker: nats.url, args: ['--broker-admin-file', nats.adminFile] })
  const startAgent = (on: Cluster, id: string) => on.startAgent({ id, bridges: [], args: ['--patience', '0.5'] })
  const ask = (apiUrl: string) => postJson(`${apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0 })
  const health = async (apiUrl: string) => (await (await fetch(`${apiUrl}/health`)).json()) as Record<string, unknown>

  it('connects a bridge and devices that trust its authority, and no device that trusts another one', async () => {
    const { ready } = await startBridge(cluster)
    expect(new URL(ready.mqttUrl).protocol).toBe('mqtts:')
    const store = openIdentityStore(cluster.stateDir('bridge'))
    const enrol = (on: Cluster, device: string) => enrolDevice({ dir: on.stateDir('.'), bridge: ready }, store, device)
    await enrol(cluster, 'orin')
    await enrol(deceived, 'wary')
    store.close()

    const orin = await startAgent(cluster, 'orin')
    await expect.poll(() => health(orin.ready.apiUrl)).toMatchObject({ broker: 'connected', bridge: 'connected' })
    expect((await ask(orin.ready.apiUrl)).status).toBe(200)

    const wary = await startAgent(deceived, 'wary')
    const refused = await ask(wary.ready.apiUrl)
    expect(refused.status).toBe(503)
    expect(JSON.stringify(await refused.json())).toMatch(/the broker mqtts:.* cannot be reached/)
    expect(await health(wary.ready.apiUrl)).toMatchObject({ broker: 'unreachable' })
  })

  it('is refused by a bridge that trusts another authority, at either listener, with what to try', async () => {
    const refused = await startBridge(deceived).catch((error: Error) => String(error.cause))
    expect(refused).toMatch(/BROKER_UNREACHABLE.*NODE_EXTRA_CA_CERTS/s)
    await expect(joinFleet(nats.url, { birth: 1, connectTimeoutMs: 500 })).rejects.toMatchObject({
      code: 'BROKER_UNREACHABLE',
      hint: expect.stringContaining('NODE_EXTRA_CA_CERTS'),
    })
  })
})
