import { join } from 'node:path'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { allows } from '../../../cloud-bridge/identity/access.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { noQuota } from '../../../core/policy/quota/quota.ts'
import { keyRoles } from '../../../core/wire/protocol/http/admin.ts'
import { deviceTopics } from '../../../core/wire/protocol/topics.ts'
import { tempDir } from '../../support/temp-dir.ts'

const id = fc.stringMatching(/^[a-z0-9]([a-z0-9_-]{0,6}[a-z0-9])?$/)
const leaf = fc.constantFrom(...deviceTopics)

it.each([
  ['viewer', 'device/a/state', true],
  ['viewer', 'device/a/log', true],
  ['viewer', 'bridge/b/state', true],
  ['viewer', 'device/a/jobs', false],
  ['viewer', 'device/a/events', false],
  ['viewer', 'device/a/events/bridge-1', false],
  ['operator', 'device/a/events', true],
  ['operator', 'device/a/events/bridge-1', true],
  ['operator', 'device/a/telemetry/bridge-1', false],
  ['operator', 'device/a/unknown', false],
  ['client', 'device/a/state', false],
])('a key with the role %s watches %s: %s', (role, path, allowed) => {
  expect(allows(`${role}-x`, { to: 'watch', topic: `brim/v1/default/${path}`, fleet: 'default' })).toBe(allowed)
  expect(allows(`${role}-x`, { to: 'watch', topic: `brim/v1/other/${path}`, fleet: 'default' })).toBe(false)
})

/** Whether an MQTT filter covers a topic (3.1.1 §4.7). */
function covers(filter: string, topic: string): boolean {
  const [own, levels] = [filter.split('/'), topic.split('/')]
  for (const [at, part] of own.entries()) {
    if (part === '#') return true
    if (part !== '+' && part !== levels[at]) return false
  }
  return own.length === levels.length
}

it('a device can neither publish nor subscribe to topics of another device', () => {
  const part = fc.oneof(id, leaf, fc.constantFrom('+', '#', 'brim', 'v1', 'device', 'bridge', 'default', 'state', ''))
  const filter = fc.oneof(
    fc.array(part, { minLength: 1, maxLength: 7 }).map((parts) => parts.join('/')),
    fc.tuple(fc.constantFrom('device', 'bridge'), part, part).map((parts) => `brim/v1/default/${parts.join('/')}`),
  )
  fc.assert(
    fc.property(id, id, leaf, filter, (own, other, name, asked) => {
      fc.pre(own !== other)
      const topic = `brim/v1/default/device/${other}/${name}`
      expect(allows(`device-${own}`, { to: 'publish', topic, fleet: 'default' })).toBe(false)
      if (covers(asked, topic)) expect(allows(`device-${own}`, { to: 'subscribe', filter: asked, fleet: 'default' })).toBe(false)
      expect(allows(`device-${own}`, { to: 'connect', device: other })).toBe(false)
    }),
    { numRuns: 1_000 },
  )
})

it('each device topic can be published by one side only, device or bridge', () => {
  fc.assert(
    fc.property(id, leaf, (own, name) => {
      const topic = `brim/v1/default/device/${own}/${name}`
      const [device, bridge] = [`device-${own}`, 'bridge-b'].map((client) =>
        allows(client, { to: 'publish', topic, fleet: 'default' }),
      )
      expect(device).not.toBe(bridge)
      expect(allows(`device-${own}`, { to: 'subscribe', filter: topic, fleet: 'default' })).toBe(
        bridge === true || name === 'state',
      )
      expect(allows('bridge-b', { to: 'subscribe', filter: topic, fleet: 'default' })).toBe(true)
    }),
  )
})

it('no client can publish or subscribe to topics of another fleet', () => {
  fc.assert(
    fc.property(fc.constantFrom('device', 'bridge'), id, id, id, leaf, (kind, own, fleet, named, name) => {
      fc.pre(fleet !== named)
      for (const topic of [`brim/v1/${named}/device/${own}/${name}`, `brim/v1/${named}/bridge/${own}/state`]) {
        expect(allows(`${kind}-${own}`, { to: 'publish', topic, fleet })).toBe(false)
        expect(allows(`${kind}-${own}`, { to: 'subscribe', filter: topic, fleet })).toBe(false)
      }
    }),
  )
  expect(allows('bridge-b', { to: 'subscribe', filter: 'brim/v1/+/device/+/state', fleet: 'default' })).toBe(false)
})

it('a device may subscribe to the states of all bridges of its fleet, and connects as itself only', () => {
  expect(allows('device-a', { to: 'subscribe', filter: 'brim/v1/default/bridge/+/state', fleet: 'default' })).toBe(true)
  expect(allows('device-a', { to: 'subscribe', filter: 'brim/v1/+/bridge/+/state', fleet: 'default' })).toBe(false)
  expect(allows('device-a', { to: 'connect', device: 'a' })).toBe(true)
  expect(allows('bridge-a', { to: 'connect', device: 'a' })).toBe(false)
  expect(allows('device-a', { to: 'read' })).toBe(false)
})

describe('the role of a key', () => {
  it.each([
    ['viewer', [true, false, false]],
    ['operator', [true, true, false]],
    ['admin', [true, true, true]],
    ['device', [false, false, false]],
    ['watcher', [false, false, false]],
  ])('%s: to read, operate, administer: %j', (role, may) => {
    const asked = (['read', 'operate', 'administer'] as const).map((to) => allows(`${role}-ci`, { to }))
    expect(asked).toEqual(may)
  })

  it('gives no access to the control plane or the data plane', () => {
    fc.assert(
      fc.property(fc.constantFrom(...keyRoles), id, leaf, (role, name, which) => {
        const subject = `${role}-${name}`
        const topic = `brim/v1/default/device/${name}/${which}`
        expect(allows(subject, { to: 'join' })).toBe(false)
        expect(allows(subject, { to: 'publish', topic, fleet: 'default' })).toBe(false)
        expect(allows(subject, { to: 'connect', device: name })).toBe(false)
      }),
    )
  })
})

it('keys of earlier releases keep their rights', () => {
  using dir = tempDir()
  const old = new Database(join(dir.path, 'identity.sqlite'))
  old.exec(`
    CREATE TABLE enrol_tokens (id TEXT PRIMARY KEY, secret_hash BLOB NOT NULL UNIQUE, device_group TEXT NOT NULL,
      uses_left INTEGER NOT NULL CHECK (uses_left >= 0), approve INTEGER NOT NULL, created_at TEXT NOT NULL,
      expires_at TEXT NOT NULL, revoked_at TEXT) STRICT;
    CREATE TABLE identities (device TEXT PRIMARY KEY, device_group TEXT NOT NULL, status TEXT NOT NULL,
      public_key TEXT NOT NULL UNIQUE, token_id TEXT NOT NULL, enrolled_at TEXT NOT NULL, hardware TEXT, clone TEXT) STRICT;
    CREATE TABLE audit (id INTEGER PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
      subject TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
    CREATE TABLE keys (id TEXT PRIMARY KEY, secret_hash BLOB NOT NULL UNIQUE, name TEXT NOT NULL, role TEXT NOT NULL,
      created_at TEXT NOT NULL, revoked_at TEXT) STRICT;
    INSERT INTO keys VALUES
      ('1', x'01', 'monitoring', 'reader', '2026-01-01', NULL), ('2', x'02', 'ci', 'submitter', '2026-01-02', NULL);
    INSERT INTO audit VALUES (1, '2026-01-01', 'operator:sam', 'key.create', '1', '{}');
    PRAGMA user_version = 2`)
  old.close()
  const store = openIdentityStore(dir.path)
  expect(store.keys().map(({ name, role }) => [name, role])).toEqual([
    ['monitoring', 'viewer'],
    ['ci', 'operator'],
  ])
  expect(store.keys()).toMatchObject([noQuota, noQuota])
  expect(store.audit(1)).toMatchObject([{ actor: 'operator:sam', from: null, action: 'key.create', outcome: 'ok' }])
  store.close()
})
