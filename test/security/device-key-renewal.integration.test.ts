import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ownKeyFileOf } from '../../agent/identity/bridge-key.ts'
import { enrol, readEnrolments, requestGrant, resetIdentity } from '../../agent/identity/enrolment.ts'
import { type DeviceKey, keyFileOf, readDeviceKey } from '../../agent/identity/key-file.ts'
import { uniformOf } from '../../cloud-bridge/identity/key-dates.ts'
import { type IdentityStore, openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { identityTables } from '../../cloud-bridge/identity/tables.ts'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { renewKeyInMs } from '../../core/policy/identity/key-validity.ts'
import { invitationText } from '../../core/wire/protocol/identity.ts'
import { startBrim } from '../../lab/cluster/processes.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { shared } from '../support/shared.ts'

const validMs = 365 * 86_400_000
const world = shared(() => startAgentWorld({ bridge: { auth: true } }))
let store: IdentityStore
beforeAll(async () => {
  store = openIdentityStore(join(world.dir, 'bridge'))
})
afterAll(() => store.close())

/** What the relay does with a renewal of a key: relays it, swallows the request, or swallows the reply. */
type Fault = 'none' | 'request lost' | 'reply lost'

/** A relay to the bridge's HTTP. */
async function startRelay(target: string) {
  const state = { fault: 'none' as Fault, renewals: 0, dataConnections: 0 }
  const server = createServer((near) => {
    const far = connect(Number(new URL(target).port), '127.0.0.1')
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      one.on('error', () => {}).on('close', () => other.destroy())
    near.once('data', (head) => {
      const isRenewal = head.includes('POST /v1/identity/key ')
      if (isRenewal) state.renewals += 1
      if (head.includes('GET /v1/data')) state.dataConnections += 1
      if (isRenewal && state.fault === 'request lost') return
      far.write(head)
      near.pipe(far)
      // Nor later replies: by a grant with the next key the agent would learn that it has been accepted.
      if (state.renewals === 0 || state.fault !== 'reply lost') far.pipe(near)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return Object.assign(state, { url, [Symbol.asyncDispose]: async () => void server.close() })
}

async function enrolAt(at: IdentityStore, url: string, device: string): Promise<string> {
  const { token, secret } = at.createToken('operator:test', { group: 'default', uses: 1, expiresS: 60, approve: true })
  const stateDir = join(world.dir, device)
  await enrol({ stateDir, device, token: invitationText({ url, id: token.id, secret }), replace: false })
  return stateDir
}

/** Makes the device's key as old as one that is due for renewal in `ms`. */
function becomeDueIn(device: string, ms: number): void {
  const { publicKey } = store.device(device)!
  const ageMs = renewKeyInMs({ sinceMs: 0, expiresMs: validMs }, { validMs }, uniformOf(publicKey), 0)! - ms
  const dates = [Date.now() - ageMs, Date.now() - ageMs + validMs].map((at) => new Date(at).toISOString())
  const database = openDatabase(join(world.dir, 'bridge', 'identity.sqlite'), identityTables)
  database.prepare('UPDATE identities SET key_since = ?, key_expires_at = ? WHERE device = ?').run(...dates, device)
  database.close()
}

const keyAt = (device: string) => store.device(device)?.publicKey
const healthOf = async (apiUrl: string) => (await fetch(`${apiUrl}/health`)).json() as Promise<Record<string, unknown>>
const connected = (apiUrl: string) => expect.poll(async () => (await healthOf(apiUrl)).bridge).toBe('connected')
const grantBy = (stateDir: string, key: DeviceKey) =>
  requestGrant(readEnrolments(stateDir)[0]!, key, new AbortController().signal)

describe('an agent', () => {
  it('renews its key without closing a connection, at one of its bridges, and connects with it after a restart', async () => {
    await using other = await startTestBridge({ bundle: world.bundle, stateDir: join(world.dir, 'other'), id: 'bridge-2' })
    const otherStore = openIdentityStore(join(world.dir, 'other'))
    await using relay = await startRelay(world.bridge.httpUrl)
    const stateDir = await enrolAt(store, relay.url, 'orin')
    await enrolAt(otherStore, other.httpUrl, 'orin')
    const first = readDeviceKey(keyFileOf(stateDir))
    becomeDueIn('orin', 3_500)
    const agent = await world.startAgent({ id: 'orin', bridges: undefined })
    await connected(agent.apiUrl)
    await expect.poll(() => relay.dataConnections).toBe(1)
    await expect.poll(() => existsSync(ownKeyFileOf(stateDir, relay.url))).toBe(true)
    const renewed = readDeviceKey(ownKeyFileOf(stateDir, relay.url))
    expect(statSync(ownKeyFileOf(stateDir, relay.url)).mode & 0o777).toBe(0o600)
    expect(keyAt('orin')).toBe(renewed.publicKey)
    expect(otherStore.device('orin')?.publicKey).toBe(first.publicKey)
    await expect(grantBy(stateDir, first)).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
    await grantBy(stateDir, renewed)
    // The bridge looks for grants that are no longer valid every second.
    await new Promise((resolve) => setTimeout(resolve, 1_200))
    expect([relay.dataConnections, relay.renewals]).toEqual([1, 1])
    await agent.close()
    const again = await world.startAgent({ id: 'orin', bridges: undefined })
    await connected(again.apiUrl)
    // An enrolment under another address of the bridge uses the key that the bridge knows.
    await enrolAt(store, world.bridge.httpUrl, 'orin')
    await again.close()
    otherStore.close()
    resetIdentity(stateDir)
    expect(existsSync(ownKeyFileOf(stateDir, relay.url))).toBe(false)
  })

  it.each([
    ['before the bridge has received the next key', 'request lost'],
    ['before it knows that the bridge has accepted it', 'reply lost'],
  ] as const)('that is killed %s connects and goes on', async (_, fault) => {
    await using relay = await startRelay(world.bridge.httpUrl)
    const device = fault.replace(' ', '-')
    const stateDir = await enrolAt(store, relay.url, device)
    const first = readDeviceKey(keyFileOf(stateDir))
    becomeDueIn(device, 0)
    relay.fault = fault
    const words = ['--bundle', world.bundle, '--id', device, '--state-dir', stateDir, '--api-port', '0', '--threads', '1']
    const killed = await startBrim(['agent', 'run', ...words], { env: process.env })
    // A slow machine may see the second attempt before it looks.
    await expect.poll(() => relay.renewals).toBeGreaterThanOrEqual(1)
    if (fault === 'reply lost') await expect.poll(() => keyAt(device)).not.toBe(first.publicKey)
    await killed.kill()
    const nextFile = ownKeyFileOf(stateDir, relay.url).replace(/pem$/, 'next.pem')
    const next = readDeviceKey(nextFile)
    expect(keyAt(device)).toBe(fault === 'reply lost' ? next.publicKey : first.publicKey)
    relay.fault = 'none'
    const agent = await world.startAgent({ id: device, bridges: undefined })
    await connected(agent.apiUrl)
    await expect.poll(() => existsSync(nextFile)).toBe(false)
    expect([keyAt(device), readDeviceKey(ownKeyFileOf(stateDir, relay.url)).publicKey]).toEqual([next.publicKey, next.publicKey])
    await expect(grantBy(stateDir, first)).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
    await agent.close()
  })
})
