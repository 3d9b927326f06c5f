import { chmodSync, copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, it } from 'vitest'
import { BundleFolder } from '../../../agent/bundles/bundle-folder.ts'
import { enrol } from '../../../agent/identity/enrolment.ts'
import { openBridgeCredentials } from '../../../agent/identity/identities.ts'
import { run } from '../../../brim.ts'
import { startEmbeddedBroker } from '../../../cloud-bridge/broker/embedded-broker.ts'
import { type CertificatePair, openCertificate } from '../../../cloud-bridge/http/certificate.ts'
import { startHttpServer } from '../../../cloud-bridge/http/server.ts'
import { requiresAuth } from '../../../cloud-bridge/identity/exposure.ts'
import { BridgeLimits } from '../../../cloud-bridge/limits.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { readInvitation } from '../../../core/wire/protocol/identity.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { installInto, jobContext } from '../../support/install.ts'
import { postJson } from '../../support/post-json.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { runBrim } from '../../support/run-brim.ts'
import { sha256Of } from '../../support/sha256-of.ts'
import { fresh } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** `renewed` has the key of `first`, and is not valid before 2090, as every certificate is to a clock in 1970. */
const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url))

const dir = fresh(tempDir)
let files: CertificatePair
beforeEach(() => {
  files = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
  put('cert', 'first.cert')
  put('key', 'first.key')
})

function put(which: 'cert' | 'key', name: string): void {
  copyFileSync(fixture(name), files[which])
  chmodSync(files[which], 0o600)
}

/** The name in the certificate that a listener shows. */
function shown(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      const { subject } = socket.getPeerCertificate()
      socket.destroy()
      resolve(String(subject.CN))
    })
    socket.once('error', reject)
  })
}

describe('a certificate', () => {
  it('is used by MQTT and HTTP, and replaced once both renewed files are in place', async () => {
    const clock = fakeClock()
    const { logger, lines } = recordingLogger('info')
    const certificate = openCertificate(files, clock, logger)
    const base = { host: '127.0.0.1', port: 0, certificate, logger: silentLogger() }
    const broker = await startEmbeddedBroker({ ...base, limits: BridgeLimits.parse({}), fleet: 'default', clock: systemClock })
    const http = await startHttpServer({ ...base, routes: [], clock: systemClock })
    const both = () => Promise.all([shown(Number(new URL(broker.url).port)), shown(http.port)])
    try {
      expect(new URL(broker.url).protocol).toBe('mqtts:')
      expect(await both()).toEqual(['brim-test-first', 'brim-test-first'])
      put('cert', 'second.cert')
      await clock.advance(20_000)
      expect(await both()).toEqual(['brim-test-first', 'brim-test-first'])
      put('key', 'second.key')
      await clock.advance(5_000)
      expect(await both()).toEqual(['brim-test-second', 'brim-test-second'])
      expect(lines.map((line) => line.msg)).toEqual([
        'TLS certificate invalid; the previous one stays in use',
        'TLS certificate renewed',
      ])
    } finally {
      certificate.close()
      await http.close()
      await broker.close()
    }
  })

  it('is refused when every user can read its key, or the key belongs to another certificate', () => {
    const open = () => openCertificate(files, fakeClock(), silentLogger())
    put('key', 'second.key')
    expect(open).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', hint: expect.stringContaining('belong together') }))
    chmodSync(files.key, 0o644)
    expect(open).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', hint: `chmod 600 ${files.key}` }))
  })

  it('is sufficient to listen beyond loopback', () => {
    expect(requiresAuth({ host: '10.0.0.1', plaintext: false, tls: files, enrolled: false })).toBe(true)
  })
})

describe('a device and a bridge that speaks TLS', () => {
  const ask = (apiUrl: string) => postJson(`${apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0 })

  async function invitation(stateDir: string, url: string, ...pin: string[]): Promise<string> {
    const { io, out } = captureIo()
    await brim(['bridge', 'token', 'create', '--approve', '--url', url, ...pin, '--state-dir', stateDir], io)
    return out().trim()
  }

  async function keyOf(stateDir: string): Promise<string> {
    const { io, out } = captureIo()
    await run(['bridge', 'key', 'create', '--name', 'ada', '--role', 'admin', '--state-dir', stateDir], io)
    return out()
  }

  it('connect by the key in the invitation, whatever the dates of the certificate; another key is rejected', async () => {
    put('cert', 'renewed.cert')
    await using world = await startAgentWorld({ bridge: { auth: true, tls: files } })
    const { httpUrl, mqttUrl, dataUrl } = world.bridge
    expect([httpUrl, mqttUrl, dataUrl].map((url) => new URL(url).protocol)).toEqual(['https:', 'mqtts:', 'wss:'])
    const bridgeDir = join(world.dir, 'bridge')
    const request = (device: string, token: string) => ({ stateDir: join(world.dir, device), device, token, replace: false })

    await enrol(request('orin', await invitation(bridgeDir, httpUrl, '--tls-cert', fixture('first.cert'))))
    const { apiUrl } = await world.startAgent({ id: 'orin', bridges: undefined })
    expect((await ask(apiUrl)).status).toBe(200)
    expect(await (await fetch(`${apiUrl}/health`)).json()).toMatchObject({ broker: 'connected', bridge: 'connected', dataUrl })

    const home = { HOME: join(world.dir, 'home') }
    const brim = async (...words: string[]) => runBrim([...words, '--json'], { env: home, stdin: await keyOf(bridgeDir) })
    expect(await brim('login', '--bridge', httpUrl, '--pin', 'x'.repeat(43))).toMatchObject({ code: 1, out: '' })
    expect(await brim('login', '--bridge', httpUrl)).toMatchObject({ err: expect.stringMatching(/BRIDGE_UNREACHABLE.*--pin/) })
    expect(await brim('login', '--bridge', httpUrl, '--pin', world.bridge.pin!)).toMatchObject({ code: 0 })
    expect(await brim('device', 'list')).toMatchObject({ code: 0, out: expect.stringContaining('"id":"orin"') })
    // An invitation by an admin whose login has a pin carries that pin.
    const { token } = JSON.parse((await brim('bridge', 'token', 'create')).out) as { token: string }
    expect(readInvitation(token)).toMatchObject({ url: httpUrl, pin: world.bridge.pin })

    // Bundles are downloaded over a connection with the same pin and with the token of the grant.
    const identities = openBridgeCredentials(
      { id: 'orin', fleet: 'default', stateDir: join(world.dir, 'orin') },
      systemClock,
      silentLogger(),
    )
    const own = { origin: new URL(httpUrl).origin, credentials: identities.at(identities.bridges[0]!) }
    const folder = new BundleFolder(join(world.dir, 'elsewhere'))
    const install = installInto(folder, { own })
    const { signal } = new AbortController()
    const version = { modelId: world.bridge.modelId, manifestSha256: sha256Of(join(world.bundle, 'manifest.json')) }
    const installed = install(version, () => {}, signal, jobContext({ link: mqttUrl }))
    expect(await installed).toMatchObject({ wasInstalled: false, probes: [{ passed: true }, { passed: true }, { passed: true }] })
    identities.close()

    const misled = enrol(request('misled', await invitation(bridgeDir, httpUrl, '--tls-cert', fixture('second.cert'))))
    await expect(misled).rejects.toMatchObject({
      code: 'IDENTITY_INVALID',
      message: expect.stringContaining('does not match the pinned key'),
    })
    // Without a pin, the system's certificate authorities decide.
    const unpinned = enrol(request('unpinned', await invitation(bridgeDir, httpUrl)))
    await expect(unpinned).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
  })
})
