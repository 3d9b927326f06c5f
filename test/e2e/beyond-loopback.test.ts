import { chmodSync, copyFileSync, writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../brim.ts'
import { urlHost } from '../../cloud-bridge/http/listen.ts'
import { type BrimProcess, startBrim } from '../../lab/cluster/processes.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { mqttClient } from '../support/broker.ts'
import { captureIo } from '../support/captured-io.ts'
import { type TempDir, tempDir } from '../support/temp-dir.ts'

/** An address of this machine that others could reach. */
const address = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find((one) => !one.internal && !one.address.startsWith('fe80:'))?.address
if (address === undefined) console.log('skipped: this machine has no address but loopback')

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/tls/${name}.pem`, import.meta.url))

describe.skipIf(address === undefined)('a bridge beyond loopback', () => {
  let dir: TempDir
  let bundle: string
  let bridge: BrimProcess
  const started: BrimProcess[] = []
  beforeAll(async () => {
    dir = tempDir()
    bundle = await buildTextBundle(dir.path)
    const [cert, key] = [join(dir.path, 'cert.pem'), join(dir.path, 'key.pem')]
    copyFileSync(fixture('first.cert'), cert)
    copyFileSync(fixture('first.key'), key)
    chmodSync(key, 0o600)
    const listen = ['--host', address!, '--tls-cert', cert, '--tls-key', key, '--mqtt-port', '0', '--http-port', '0']
    bridge = await start('bridge', 'run', ...listen, '--state-dir', bridgeDir())
  })
  afterAll(async () => {
    await Promise.all(started.map((brim) => brim.stop()))
    dir[Symbol.dispose]()
  })

  const bridgeDir = () => join(dir.path, 'bridge')
  async function start(...args: string[]): Promise<BrimProcess> {
    const brim = await startBrim([...args, '--bundle', bundle, '--threads', '1'], { env: process.env })
    started.push(brim)
    return brim
  }
  async function brim(words: string[], stdin = '') {
    const { io, out, err } = captureIo({ env: { HOME: join(dir.path, 'home'), USER: 'ada' }, stdin })
    return { code: await run(words, io), out: out().trim(), err: err() }
  }

  it('speaks TLS and lets in who was invited alone; an admin invites and cuts off from elsewhere', async () => {
    const { httpUrl, mqttUrl, dataUrl, pin } = bridge.ready as Record<string, string>
    const urls = [httpUrl!, mqttUrl!, dataUrl!].map((url) => new URL(url))
    expect(urls.map(({ protocol }) => protocol)).toEqual(['https:', 'mqtts:', 'wss:'])
    expect(new Set(urls.map(({ hostname }) => hostname))).toEqual(new Set([urlHost(address!)]))

    const { out: key } = await brim(['bridge', 'key', 'create', '--name', 'ada', '--role', 'admin', '--state-dir', bridgeDir()])
    const login = (...more: string[]) => brim(['login', '--bridge', httpUrl!, ...more], key)
    expect(await login()).toMatchObject({ code: 1, err: expect.stringContaining('BRIDGE_UNREACHABLE') })
    expect(await login('--pin', 'x'.repeat(43))).toMatchObject({ code: 1, err: expect.stringContaining('IDENTITY_INVALID') })
    expect(await login('--pin', pin!)).toMatchObject({ code: 0, err: '' })

    const token = join(dir.path, 'token')
    writeFileSync(token, (await brim(['bridge', 'token', 'create', '--approve'])).out)
    const stateDir = join(dir.path, 'orin')
    expect(await brim(['agent', 'enroll', '--id', 'orin', '--token-file', token, '--state-dir', stateDir])).toMatchObject({
      code: 0,
    })
    const agent = await start('agent', 'run', '--id', 'orin', '--state-dir', stateDir, '--api-port', '0', '--patience', '0.5')
    const ask = () =>
      fetch(`${agent.ready.apiUrl}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ prompt: [5, 6, 7], max_tokens: 4, temperature: 0 }),
      })
    const health = async () => (await (await fetch(`${agent.ready.apiUrl}/health`)).json()) as Record<string, unknown>
    expect((await ask()).status).toBe(200)
    expect(await health()).toMatchObject({ broker: 'connected', bridge: 'connected', dataUrl })

    const stranger = mqttClient(mqttUrl!, 'device-orin', { rejectUnauthorized: false })
    await expect(stranger).rejects.toThrow(/not authorized/i)
    expect(await brim(['whoami', '--bridge', httpUrl!.replace('https:', 'http:')])).toMatchObject({ code: 1, out: '' })

    expect(await brim(['device', 'revoke', 'orin'])).toMatchObject({ code: 0 })
    await expect.poll(health, { timeout: 5_000 }).toMatchObject({ broker: 'unreachable', bridge: 'unreachable' })
    expect((await ask()).status).toBe(503)
  })
})
