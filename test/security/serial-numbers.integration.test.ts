import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type IdentityStore, openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { tempDir } from '../support/temp-dir.ts'

const [serial, other] = ['device-tree 1421120041203', 'mac 48:b0:2d:00:00:01']
const dir = tempDir()
let bridge: TestBridge
let store: IdentityStore
const keys: Record<string, string> = {}

beforeAll(async () => {
  const stateDir = join(dir.path, 'bridge')
  bridge = await startTestBridge({ stateDir, auth: true, upstream: { url: 'http://127.0.0.1:9/v1', model: 'none' } })
  store = openIdentityStore(stateDir)
  for (const role of ['viewer', 'operator', 'admin'] as const) keys[role] = store.createKey('operator:test', role, role).key
  await enrolDevice({ dir: dir.path, bridge }, store, 'orin')
  for (const hardware of [serial, other]) store.grant({ device: 'orin', hardware }, { validMs: 0 }, '127.0.0.1')
})
afterAll(async () => {
  store.close()
  await bridge.close()
  dir[Symbol.dispose]()
})

const get = (role: string, path: string, accept = 'application/json') =>
  fetch(bridge.httpUrl + path, { headers: { authorization: `Bearer ${keys[role]}`, accept } })
const paths = ['/v1/devices', '/v1/devices/orin', '/v1/fleet', '/v1/fleet/summary']
const streams = ['/v1/fleet/events', '/v1/devices/orin/events']

async function shownTo(role: string): Promise<string> {
  const texts = paths.map(async (path) => (await get(role, path)).text())
  const events = streams.map(async (path) => {
    const { body } = await get(role, path, 'text/event-stream')
    for await (const event of readSse(body!)) return event
    return ''
  })
  return (await Promise.all([...texts, ...events])).join('\n')
}

describe('the serial number that a copied key needs', () => {
  it('is shown to operators, and not to viewers, who see that there is a clone', async () => {
    const [viewers, operators] = [await shownTo('viewer'), await shownTo('operator')]
    for (const hardware of [serial, other]) {
      expect(operators).toContain(hardware)
      expect(viewers).not.toContain(hardware)
    }
    expect(viewers).toContain('its key on another machine')
  })

  it.each([undefined, other])('is not told to a machine that presents the key and names %s', (hardware) => {
    const refused = store.grant({ device: 'orin', hardware }, { validMs: 0 }, '127.0.0.1')
    expect(refused).toMatchObject({ kind: 'refused', code: 'DEVICE_CLONED' })
    expect(JSON.stringify(refused)).not.toContain(serial)
  })
})
