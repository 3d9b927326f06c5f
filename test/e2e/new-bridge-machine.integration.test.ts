import { chmodSync, copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import type { BridgeSettings } from '../../cloud-bridge/config.ts'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { dialPinned, sendRequest } from '../../core/kit/base/http-client.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { brim } from '../support/brim.ts'
import { captureIo } from '../support/captured-io.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/tls/${name}.pem`, import.meta.url))

const dir = shared(tempDir)
let bridge: TestBridge
let agent: Agent
/** On a machine. */
const at = (machine: 'old' | 'new', name: string) => join(dir.path, machine, name)
afterAll(async () => {
  await agent?.close()
  await bridge?.close()
})

async function run<T>(...argv: string[]): Promise<T> {
  const { io, out } = captureIo({ env: { HOME: dir.path } })
  await brim([...argv, '--json'], io)
  return JSON.parse(out()) as T
}

/** @param tls files of its certificate and key */
const start = (machine: 'old' | 'new', tls: { cert: string; key: string }, settings: Partial<BridgeSettings> = {}) => {
  const places = { stateDir: at(machine, 'state'), bundle: at(machine, 'bundles/tiny'), bundles: at(machine, 'bundles') }
  return startTestBridge({ id: 'north', fleet: 'lab', auth: true, tls, ...places, ...settings })
}

async function bundles(key: string): Promise<string[]> {
  const headers = { authorization: `Bearer ${key}` }
  const access = { url: bridge.httpUrl, pin: bridge.pin }
  const response = await sendRequest(new URL('/v1/bundles', access.url), {
    headers,
    dial: dialPinned(access.pin),
    signal: AbortSignal.timeout(30_000),
  })
  const found = JSON.parse(Buffer.concat(await response.toArray()).toString()) as { bundles: { modelId: string }[] }
  return found.bundles.map(({ modelId }) => modelId)
}

it('a bridge moves to a new machine, and no device enrols again', { timeout: 60_000 }, async () => {
  for (const machine of ['old', 'new'] as const) mkdirSync(join(dir.path, machine))
  const tls = { cert: at('old', 'cert.pem'), key: at('old', 'key.pem') }
  copyFileSync(fixture('first.cert'), tls.cert)
  copyFileSync(fixture('first.key'), tls.key)
  chmodSync(tls.key, 0o600)
  writeFileSync(at('old', 'bridge.yaml'), 'id: north\nfleet: lab\n')
  cpSync(await buildTextBundle(dir.path), at('old', 'bundles/tiny'), { recursive: true })

  bridge = await start('old', tls)
  const identities = openIdentityStore(at('old', 'state'))
  await enrolDevice({ dir: dir.path, bridge }, identities, 'orin')
  const { key } = identities.createKey('operator:test', 'sam', 'viewer')
  identities.close()
  const id = 'orin'
  const settings = { id, fleet: 'lab', stateDir: join(dir.path, id), bundle: at('old', 'bundles/tiny'), apiPort: 0 }
  agent = await startAgent({ ...settings, threads: 1, logLevel: 'silent' })
  const connections = () => fetch(`${agent.apiUrl}/health`).then((response) => response.json())
  await expect.poll(connections).toMatchObject({ broker: 'connected', bridge: 'connected' })
  const served = await bundles(key)

  // The bridge may run, as it does for every backup but the last one.
  const [out, config] = [join(dir.path, 'backup'), at('old', 'bridge.yaml')]
  const from = ['--state-dir', at('old', 'state'), '--config', config]
  const { digest } = await run<{ digest: string }>('bridge', 'backup', '--out', out, ...from)
  const [httpPort, mqttPort] = [bridge.httpUrl, bridge.mqttUrl].map((url) => Number(new URL(url).port)) as [number, number]
  await bridge.close()

  // As an installation does that starts the service.
  const first = await startTestBridge({ stateDir: at('new', 'state'), bundle: at('old', 'bundles/tiny') })
  await first.close()
  const to = ['--state-dir', at('new', 'state'), '--expect', digest]
  const restored = await run<{ tls: typeof tls; config: string; stateDir: string }>('bridge', 'restore', out, ...to)
  expect(restored).toMatchObject({ bridge: 'north', fleet: 'lab', stateDir: at('new', 'state') })
  expect(readFileSync(restored.config)).toEqual(readFileSync(config))
  cpSync(at('old', 'bundles'), at('new', 'bundles'), { recursive: true })

  bridge = await start('new', restored.tls, { httpPort, mqttPort })
  await expect.poll(connections, { timeout: 30_000 }).toMatchObject({ broker: 'connected', bridge: 'connected' })
  const body = JSON.stringify({ prompt: [5, 6, 7], max_tokens: 2 })
  const headers = { 'content-type': 'application/json' }
  expect((await fetch(`${agent.apiUrl}/v1/completions`, { method: 'POST', headers, body })).status).toBe(200)
  // Keys of operators stay valid, and bundles are offered again.
  expect(await bundles(key)).toEqual(served)
  expect(served).toHaveLength(1)
})
