import { chmodSync, copyFileSync, cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { openBridgeKey } from '../../../agent/identity/bridge-key.ts'
import { openBridgePins } from '../../../agent/identity/bridge-pins.ts'
import { createCredentials } from '../../../agent/identity/credentials.ts'
import { enrol, readEnrolments } from '../../../agent/identity/enrolment.ts'
import { identityRoutes } from '../../../cloud-bridge/api/identity.ts'
import { openCertificate } from '../../../cloud-bridge/http/certificate.ts'
import { startHttpServer } from '../../../cloud-bridge/http/server.ts'
import { openTlsPins, type TlsPins } from '../../../cloud-bridge/identity/tls-pins.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { invitationText } from '../../../core/wire/protocol/identity.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { openIdentityWorld } from '../../support/identity-world.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url))
const { signal } = new AbortController()

it('a device that has learned the next TLS key stays with the bridge when the key is replaced', async () => {
  using dir = tempDir()
  const files = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
  const put = (name: string) => {
    for (const which of ['cert', 'key'] as const) {
      copyFileSync(fixture(`${name}.${which}`), files[which])
      chmodSync(files[which], 0o600)
    }
  }
  put('first')
  let pins: TlsPins | undefined
  using world = openIdentityWorld({ tlsPins: () => pins!.all() })
  const { store } = world
  const clock = fakeClock()
  const { logger, lines } = recordingLogger('info')
  const certificate = openCertificate(files, clock, silentLogger())
  pins = openTlsPins(certificate, store, logger)
  const first = pins.present
  const routes = [identityRoutes(world.identities, world.grants)]
  const http = await startHttpServer({
    host: '127.0.0.1',
    port: 0,
    certificate,
    logger: silentLogger(),
    routes,
    clock: systemClock,
  })
  const url = `https://127.0.0.1:${http.port}`
  const enrolled = async (device: string, stateDir: string) => {
    const token = invitationText({ url, id: '0123abcd', secret: world.token(), pin: first })
    await enrol({ stateDir, device, token, replace: false })
  }
  const connect = (stateDir: string) => {
    const [enrolment] = readEnrolments(stateDir)
    const own = openBridgePins(stateDir, enrolment!)
    const key = openBridgeKey(stateDir, url)
    const credentials = createCredentials({ enrolment: enrolment!, key, pins: own, clock: fakeClock(), logger: silentLogger() })
    return { pins: own, grant: () => credentials.token(credentials.dataUrl, signal), credentials }
  }
  try {
    const [home, away] = [join(dir.path, 'home'), join(dir.path, 'away')]
    await enrolled('home', home)
    await enrolled('away', away)
    const device = connect(home)
    await device.grant()
    expect(device.pins.accepted).toEqual([first])

    using other = tempDir()
    for (const which of ['cert', 'key'] as const) copyFileSync(fixture(`second.${which}`), join(other.path, `${which}.pem`))
    chmodSync(join(other.path, 'key.pem'), 0o600)
    const next = openCertificate({ cert: join(other.path, 'cert.pem'), key: join(other.path, 'key.pem') }, clock, silentLogger())
    const announced = openTlsPins(next, store, silentLogger()).present
    next.close()
    store.announcePin('operator:test', announced)
    await device.grant()
    expect(device.pins.accepted).toEqual([first, announced])
    // The bridge knows it with the next request, and a restart of the agent changes nothing.
    expect(store.devicesWithoutPin(announced)).toEqual(['away', 'home'])
    await device.grant()
    expect(store.devicesWithoutPin(announced)).toEqual(['away'])
    cpSync(home, join(dir.path, 'copy'), { recursive: true })
    expect(connect(join(dir.path, 'copy')).pins.accepted).toEqual([first, announced])

    put('second')
    await clock.advance(5_000)
    expect(pins.present).toBe(announced)
    await device.grant()
    expect(device.pins.accepted).toEqual([announced])
    expect(readEnrolments(home)[0]?.pin).toBe(announced)
    expect(connect(home).pins.accepted).toEqual([announced])
    expect(store.nextPins()).toEqual([])
    expect(lines.map(({ msg }) => msg)).toEqual(['TLS key replaced by the announced one'])
    expect(store.audit(9).map(({ action }) => action)).toEqual(expect.arrayContaining(['tls.announce', 'tls.withdraw']))
    // One that was away all the time does not take the new key for the old one.
    await expect(connect(away).grant()).rejects.toMatchObject({ code: 'IDENTITY_INVALID' })
    // A key that the present one has not announced is not learned: a proxy may end TLS.
    expect(device.pins.learn([first, 'x'.repeat(43)])).toBe(false)
  } finally {
    certificate.close()
    await http.close()
  }
})
