import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openBridgeKey } from '../../../agent/identity/bridge-key.ts'
import { createCredentials } from '../../../agent/identity/credentials.ts'
import { readEnrolments, requestGrant, resetIdentity } from '../../../agent/identity/enrolment.ts'
import { hardwareOf } from '../../../agent/identity/hardware.ts'
import { keyFileOf, readDeviceKey } from '../../../agent/identity/key-file.ts'
import { identityRoutes } from '../../../cloud-bridge/api/identity.ts'
import { Grants, grantMs } from '../../../cloud-bridge/identity/grants.ts'
import { createIdentities, type Identities } from '../../../cloud-bridge/identity/identities.ts'
import { type IdentityStore, openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import type { Clock } from '../../../core/kit/base/clock.ts'
import type { ErrorResponse } from '../../../core/wire/protocol/http/error-response.ts'
import { identityOperations } from '../../../core/wire/protocol/http/identity.ts'
import { NonceReply, type Signed, signedBytes } from '../../../core/wire/protocol/identity.ts'
import { brim as execute } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { startTestHttp, type TestHttp } from '../../support/http.ts'
import { fresh } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = fresh(tempDir)
let store: IdentityStore
const clock = fresh(fakeClock)
let identities: Identities
let grants: Grants
let http: TestHttp
/** Devices whose grant has ended. */
let ended: string[]
const never = new AbortController().signal

beforeEach(async () => {
  ended = []
  store = openIdentityStore(dir.path)
  const logger = silentLogger()
  grants = new Grants({ store, bridge: 'bridge-1', authRequired: true, clock })
  identities = createIdentities({
    store,
    grants,
    bridge: 'bridge-1',
    fleet: 'default',
    keys: { validMs: 0 },
    failedProofsPerMinute: 30,
    authRequiredOnceEnrolled: true,
    controlPlane: { mqttPort: 1883, mqttTls: false },
    onGrantEnd: (device) => ended.push(device),
    clock,
    logger,
  })
  http = await startTestHttp([identityRoutes(identities, grants)])
})
afterEach(async () => {
  vi.useRealTimers()
  identities.close()
  await http.close()
  store.close()
})

/** A command as an operator or a device runs it; @returns what it prints with --json */
async function brim(argv: string[], stdin = ''): Promise<Record<string, unknown>> {
  const { io, out } = captureIo({ stdin })
  await execute([...argv, '--json'], io)
  return JSON.parse(out()) as Record<string, unknown>
}

const atBridge = (...argv: string[]) => brim([...argv, '--state-dir', dir.path])
const stateDirOf = (device: string) => join(dir.path, 'agents', device)
const createToken = async (...options: string[]) => {
  const url = `http://127.0.0.1:${http.port}`
  return (await atBridge('bridge', 'token', 'create', '--url', url, ...options)) as { token: string; id: string }
}
/** A server whose response never ends. */
async function startEndless(): Promise<{ port: number; close(): Promise<void> }> {
  const server = createServer((_, response) => {
    const more = () => {
      while (response.write('x'.repeat(16_384)));
    }
    response.on('drain', more)
    more()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const enroll = (device: string, token: string, ...options: string[]) =>
  brim(['agent', 'enroll', '--id', device, '--token-file', '-', '--state-dir', stateDirOf(device), ...options], `${token}\n`)
const sessionOf = (device: string, keyOf = device) =>
  requestGrant(readEnrolments(stateDirOf(device))[0]!, readDeviceKey(keyFileOf(stateDirOf(keyOf))), never)

describe('a device', () => {
  it('enrols with a token from standard input, and is granted access once it is approved', async () => {
    const { token } = await createToken('--group', 'lab')
    expect(await enroll('a', token)).toMatchObject({
      status: 'pending',
      group: 'lab',
      bridge: 'bridge-1',
      mqttUrl: 'mqtt://127.0.0.1:1883',
    })
    await expect(sessionOf('a')).rejects.toMatchObject({
      code: 'NOT_AUTHORIZED',
      hint: expect.stringContaining('brim device approve a'),
    })
    await atBridge('device', 'approve', 'a')
    const session = await sessionOf('a')
    expect(session.validForS).toBe(900)
    expect(grants.subjectOf(session.token)).toBe('device-a')
    expect(statSync(keyFileOf(stateDirOf('a'))).mode & 0o777).toBe(0o600)
  })

  it('enrols with a token from a file that approves devices, as often as the token allows', async () => {
    const { token } = await createToken('--approve', '--uses', '2')
    const file = join(dir.path, 'token')
    writeFileSync(file, `${token}\n`, { mode: 0o600 })
    const run = (id: string) => brim(['agent', 'enroll', '--id', id, '--token-file', file, '--state-dir', stateDirOf(id)])
    expect(await run('a')).toMatchObject({ status: 'approved' })
    // The response may have been lost: a repeated enrolment does not use the token again.
    expect(await run('a')).toMatchObject({ status: 'approved' })
    expect(await run('b')).toMatchObject({ status: 'approved' })
    await expect(run('c')).rejects.toMatchObject({ code: 'ENROLL_REFUSED', message: expect.stringContaining('used up') })
  })

  it('enrols only with a valid token: a revoked one is refused and audited, malformed text is not sent', async () => {
    const { token, id } = await createToken()
    await atBridge('bridge', 'token', 'revoke', id)
    await expect(enroll('a', token)).rejects.toMatchObject({ code: 'ENROLL_REFUSED', message: `token ${id} was revoked` })
    await expect(enroll('a', 'nonsense')).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
    await expect(atBridge('bridge', 'token', 'revoke', 'ffffffff')).rejects.toMatchObject({ code: 'IDENTITY_UNKNOWN' })
    await expect(atBridge('device', 'revoke', 'a')).rejects.toMatchObject({ code: 'IDENTITY_UNKNOWN' })
    const { audit } = (await atBridge('bridge', 'audit')) as { audit: { action: string }[] }
    expect(audit.map((line) => line.action)).toEqual(['device.enroll.refused', 'token.revoke', 'token.create'])
  })

  it('enrols without a secret in the database', async () => {
    const { token } = await createToken()
    const { secret } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as { secret: string }
    await enroll('a', token)
    const files = ['identity.sqlite', 'identity.sqlite-wal'].map((name) => readFileSync(join(dir.path, name)))
    for (const bytes of files) {
      expect(bytes.includes(secret)).toBe(false)
      expect(bytes.includes(Buffer.from(secret, 'base64url'))).toBe(false)
    }
  })

  it('keeps its key and its other bridges if it cannot enrol at an unreachable bridge', async () => {
    const { token } = await createToken('--uses', '9', '--approve')
    await enroll('a', token)
    const known = () => [readDeviceKey(keyFileOf(stateDirOf('a'))).publicKey, readEnrolments(stateDirOf('a'))]
    const before = known()
    await http.close()
    await expect(enroll('a', token, '--replace')).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    expect(known()).toEqual(before)
  })

  it('rejects a server whose response never ends', async () => {
    const { port, close } = await startEndless()
    await using _ = { [Symbol.asyncDispose]: close }
    const { token } = (await atBridge('bridge', 'token', 'create', '--url', `http://127.0.0.1:${port}`)) as { token: string }
    await expect(enroll('a', token)).rejects.toMatchObject({
      code: 'BRIDGE_UNREACHABLE',
      cause: { message: expect.stringContaining('more than 65536 bytes') },
    })
  })

  it('enrols with its present key, unless --replace is given', async () => {
    const { token } = await createToken('--uses', '9', '--approve')
    await enroll('a', token)
    const key = () => readDeviceKey(keyFileOf(stateDirOf('a'))).publicKey
    const first = key()
    await enroll('a', token)
    expect(key()).toBe(first)
    await expect(enroll('a', token, '--replace')).rejects.toMatchObject({ hint: expect.stringContaining('brim device revoke a') })
    expect(key()).not.toBe(first)
    await atBridge('device', 'revoke', 'a')
    expect(await enroll('a', token)).toMatchObject({ status: 'approved' })
  })
})

describe('keys', () => {
  it('are refused when other users can read them', async () => {
    await enroll('a', (await createToken()).token)
    chmodSync(keyFileOf(stateDirOf('a')), 0o640)
    expect(() => readDeviceKey(keyFileOf(stateDirOf('a')))).toThrow(
      expect.objectContaining({ code: 'IDENTITY_INVALID', hint: expect.stringContaining('chmod 600') }),
    )
  })

  it('give no access to another device', async () => {
    const { token } = await createToken('--approve', '--uses', '2')
    await enroll('a', token)
    await enroll('b', token)
    await expect(sessionOf('a', 'b')).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
  })

  it('of a cloned image are detected, and operators see both machines', async () => {
    await enroll('a', (await createToken('--approve')).token)
    const hardware = hardwareOf()
    store.grant({ device: 'a', hardware: 'device-tree 1' }, { validMs: 0 }, '127.0.0.1')
    expect(store.grant({ device: 'a', hardware: 'device-tree 2' }, { validMs: 0 }, '127.0.0.1')).toMatchObject({
      code: 'DEVICE_CLONED',
      message: expect.stringContaining('used on two machines'),
    })
    store.grant({ device: 'a', hardware: 'device-tree 2' }, { validMs: 0 }, '127.0.0.1')
    expect(store.devices()).toMatchObject([{ hardware: 'device-tree 1', clone: 'device-tree 2' }])
    expect(store.audit(9).filter((line) => line.action === 'device.cloned')).toHaveLength(1)
    const { token } = await createToken('--approve')
    // The copy has another name and the copied key.
    mkdirSync(stateDirOf('copy'), { recursive: true })
    symlinkSync(join(stateDirOf('a'), 'identity'), join(stateDirOf('copy'), 'identity'))
    await expect(enroll('copy', token)).rejects.toMatchObject({
      code: 'DEVICE_CLONED',
      hint: expect.stringContaining('brim agent reset-identity'),
    })
    resetIdentity(stateDirOf('copy'))
    expect(await enroll('copy', token)).toMatchObject({ status: 'approved' })
    expect(hardware === undefined || /^[a-z-]+ \S+$/.test(hardware)).toBe(true)
  })
})

describe('machines', () => {
  it('are identified by the serial number of the board, else by a physical network device', () => {
    const root = join(dir.path, 'root')
    const put = (path: string, text: string) => {
      mkdirSync(join(root, path, '..'), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    expect(hardwareOf(root)).toBeUndefined()
    put('sys/class/net/lo/address', '00:00:00:00:00:00\n')
    expect(hardwareOf(root)).toBeUndefined()
    put('sys/class/net/eth0/address', '48:b0:2d:00:00:02\n')
    put('sys/class/net/eth0/device/vendor', '')
    expect(hardwareOf(root)).toBe('mac 48:b0:2d:00:00:02')
    put('proc/device-tree/serial-number', '1421120041203\0')
    expect(hardwareOf(root)).toBe('device-tree 1421120041203')
  })
})

describe('grants', () => {
  it('end after 15 minutes without a renewal', async () => {
    await enroll('a', (await createToken('--approve')).token)
    const first = await sessionOf('a')
    await clock.advance(grantMs - 60_000)
    const second = await sessionOf('a')
    await clock.advance(120_000)
    expect(grants.subjectOf(first.token)).toBeUndefined()
    expect(grants.subjectOf(second.token)).toBe('device-a')
    expect(ended).toEqual([])
    await clock.advance(grantMs)
    expect(ended).toEqual(['a'])
  })

  it('end within seconds of a revocation, and their tokens at once', async () => {
    await enroll('a', (await createToken('--approve')).token)
    const { token } = await sessionOf('a')
    await atBridge('device', 'revoke', 'a')
    expect(grants.subjectOf(token)).toBeUndefined()
    await clock.advance(5_000)
    expect(ended).toEqual(['a'])
    await expect(sessionOf('a')).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
  })

  it('are given to a device whose clock is in 1970', async () => {
    await enroll('a', (await createToken('--approve')).token)
    vi.useFakeTimers({ toFake: ['Date'], now: 0 })
    expect(grants.subjectOf((await sessionOf('a')).token)).toBe('device-a')
  })

  it('are renewed while the agent runs', async () => {
    await enroll('a', (await createToken('--approve')).token)
    const slept: number[] = []
    const counted: Clock = {
      nowMs: clock.nowMs,
      sleep(ms, signal) {
        slept.push(ms)
        return clock.sleep(ms, signal)
      },
    }
    const [enrolment] = readEnrolments(stateDirOf('a'))
    const key = openBridgeKey(stateDirOf('a'), enrolment!.url)
    const credentials = createCredentials({ enrolment: enrolment!, key, clock: counted, logger: silentLogger() })
    await credentials.token(credentials.dataUrl, never)
    for (let renewals = 0; renewals < 6; renewals++) {
      await expect.poll(() => slept.length).toBe(renewals + 1)
      await clock.advance(slept[renewals]!)
    }
    await expect.poll(() => slept.length).toBe(7)
    expect(clock.nowMs()).toBe(6 * (2 / 3) * grantMs)
    expect(ended).toEqual([])
    credentials.close()
    await clock.advance(grantMs + 1_000)
    expect(ended).toEqual(['a'])
  })

  it('are not requested from a bridge with another name', async () => {
    await enroll('a', (await createToken('--approve')).token)
    const [enrolment] = readEnrolments(stateDirOf('a'))
    const key = readDeviceKey(keyFileOf(stateDirOf('a')))
    await expect(requestGrant({ ...enrolment!, bridge: 'other' }, key, never)).rejects.toMatchObject({ code: 'IDENTITY_INVALID' })
  })

  it('require a fresh nonce, which is accepted once', async () => {
    await enroll('a', (await createToken('--approve')).token)
    const { nonce: nonceOperation, session } = identityOperations
    const key = readDeviceKey(keyFileOf(stateDirOf('a')))
    const ask = async () => NonceReply.parse(await (await http.post(nonceOperation.path, {})).json())
    const request = (purpose: Signed['purpose'], { nonce, bridge, fleet }: NonceReply) => ({
      v: 1,
      device: 'a',
      nonce,
      signature: key.sign(signedBytes({ purpose, nonce, bridge, fleet, device: 'a' })),
    })
    const signed = request('session', await ask())
    expect((await http.post(session.path, signed)).status).toBe(200)
    expect((await http.post(session.path, signed)).status).toBe(401)
    const late = request('session', await ask())
    await clock.advance(60_000)
    expect((await http.post(session.path, late)).status).toBe(401)
    expect((await http.post(session.path, request('enroll', await ask()))).status).toBe(401)
  })

  it('are refused to a device that waits for approval without limiting others at its address', async () => {
    await enroll('a', (await createToken()).token)
    for (let i = 0; i < 31; i++) await expect(sessionOf('a')).rejects.toMatchObject({ message: expect.stringContaining('waits') })
    await enroll('b', (await createToken('--approve')).token)
    await sessionOf('b')
  })

  it('are refused for a minute to an address with too many failed proofs', async () => {
    const failure = async () => {
      const request = { v: 1, device: 'a', nonce: 'w'.repeat(43), signature: 'w'.repeat(86) }
      const response = await http.post(identityOperations.session.path, request)
      return `${response.status} ${((await response.json()) as ErrorResponse).error.message}`
    }
    for (let i = 0; i < 30; i++) expect(await failure()).toMatch(/^401 .*has not proven/)
    expect(await failure()).toMatch(/^429 too many/)
    await clock.advance(60_000)
    expect(await failure()).toMatch(/^401 .*has not proven/)
  })
})
