import { chmodSync, copyFileSync, writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { urlHost } from '../../core/kit/listen/listen.ts'
import { type BridgeNode, Cluster } from '../../lab/cluster/cluster.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { mqttClient } from '../support/broker.ts'
import { postJson } from '../support/post-json.ts'
import { isMissing } from '../support/prerequisites.ts'
import { runBrim } from '../support/run-brim.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

/** An address at which other machines could reach this one. */
const address = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find((one) => !one.internal && !one.address.startsWith('fe80:'))?.address

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/tls/${name}.pem`, import.meta.url))

describe.skipIf(isMissing('a network address other than loopback', address !== undefined))('a bridge beyond loopback', () => {
  const dir = shared(tempDir)
  const cluster = shared(async () => Cluster.create({ bundle: await buildTextBundle(dir.path), env: process.env }))
  let bridge: BridgeNode
  beforeAll(async () => {
    const [cert, key] = [join(dir.path, 'cert.pem'), join(dir.path, 'key.pem')]
    copyFileSync(fixture('first.cert'), cert)
    copyFileSync(fixture('first.key'), key)
    chmodSync(key, 0o600)
    bridge = await cluster.startBridge({ args: ['--host', address!, '--tls-cert', cert, '--tls-key', key] })
  })

  async function brim(words: string[], stdin = '') {
    const result = await runBrim(words, { env: { HOME: join(dir.path, 'home'), USER: 'ada' }, stdin })
    return { ...result, out: result.out.trim() }
  }

  it('serves TLS to invited devices and logged-in operators only, and disconnects a device that is revoked', async () => {
    const { httpUrl, mqttUrl, dataUrl, pin } = bridge.ready
    const urls = [httpUrl, mqttUrl, dataUrl].map((url) => new URL(url))
    expect(urls.map(({ protocol }) => protocol)).toEqual(['https:', 'mqtts:', 'wss:'])
    expect(new Set(urls.map(({ hostname }) => hostname))).toEqual(new Set([urlHost(address!)]))

    const { out: key } = await brim([
      'bridge',
      'key',
      'create',
      '--name',
      'ada',
      '--role',
      'admin',
      '--state-dir',
      cluster.stateDir('bridge'),
    ])
    const login = (...more: string[]) => brim(['login', '--bridge', httpUrl, ...more], key)
    expect(await login()).toMatchObject({ code: 1, err: expect.stringContaining('BRIDGE_UNREACHABLE') })
    expect(await login('--pin', 'x'.repeat(43))).toMatchObject({ code: 1, err: expect.stringContaining('IDENTITY_INVALID') })
    expect(await login('--pin', pin!)).toMatchObject({ code: 0, err: '' })

    const token = join(dir.path, 'token')
    writeFileSync(token, (await brim(['bridge', 'token', 'create', '--approve'])).out, { mode: 0o600 })
    const stateDir = cluster.stateDir('orin')
    expect(await brim(['agent', 'enroll', '--id', 'orin', '--token-file', token, '--state-dir', stateDir])).toMatchObject({
      code: 0,
    })
    const agent = await cluster.startAgent({ id: 'orin', bridges: [], args: ['--patience', '0.5'] })
    const ask = () => postJson(`${agent.ready.apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0 })
    const health = async () => (await (await fetch(`${agent.ready.apiUrl}/health`)).json()) as Record<string, unknown>
    expect((await ask()).status).toBe(200)
    expect(await health()).toMatchObject({ broker: 'connected', bridge: 'connected', dataUrl })

    const stranger = mqttClient(mqttUrl, 'device-orin', { rejectUnauthorized: false })
    await expect(stranger).rejects.toThrow(/not authorized/i)
    expect(await brim(['whoami', '--bridge', httpUrl.replace('https:', 'http:')])).toMatchObject({ code: 1, out: '' })

    expect(await brim(['device', 'revoke', 'orin'])).toMatchObject({ code: 0 })
    await expect.poll(health).toMatchObject({ broker: 'unreachable', bridge: 'unreachable' })
    expect((await ask()).status).toBe(503)
  })
})
