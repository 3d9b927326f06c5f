import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { backUp } from '../../../cloud-bridge/backup/backup.ts'
import { requireRestored, restore } from '../../../cloud-bridge/backup/restore.ts'
import { openSnapshots } from '../../../cloud-bridge/backup/snapshots.ts'
import { bridgeDatabases, bridgeTables } from '../../../cloud-bridge/databases.ts'
import { identityOf, recordStart } from '../../../cloud-bridge/identity/bridge-identity.ts'
import { localKey } from '../../../cloud-bridge/identity/local-access.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { identityTables } from '../../../cloud-bridge/identity/tables.ts'
import { createJobStore } from '../../../cloud-bridge/queue/job-store.ts'
import { jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { nextBirth } from '../../../core/kit/store/births.ts'
import { lockFolder } from '../../../core/kit/store/lock-folder.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { fresh } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = fresh(tempDir)
const at = (name: string) => join(dir.path, name)

/** A bridge's state folder with one key and one job. */
function makeState(name: string, tls?: { cert: string; key: string }): string {
  const stateDir = at(name)
  for (const { file, migrations } of bridgeDatabases) openDatabase(join(stateDir, file), migrations, 'NORMAL').close()
  const store = openDatabase(join(stateDir, 'bridge.sqlite'), bridgeTables)
  recordStart(store, { bridge: name, fleet: 'lab', tlsCert: tls?.cert ?? null, tlsKey: tls?.key ?? null })
  nextBirth(store)
  store.close()
  const identities = openIdentityStore(stateDir)
  identities.createKey('operator:test', 'sam', 'admin')
  identities.close()
  submit(stateDir)
  return stateDir
}

/** @returns the job's id */
function submit(stateDir: string): string {
  const store = openDatabase(join(stateDir, 'jobs.sqlite'), jobTables)
  const jobs = createJobStore(store, { next: () => 0.5 }, { attemptBytes: 2 ** 20, deviceBytesPerDay: 2 ** 20 })
  try {
    const job = { kind: 'profile', target: null, priority: 5, key: null, input: '{}', terms: '{}', deadlineMs: 60_000 }
    return jobs.submit([job], 0)[0]!.id
  } finally {
    store.close()
  }
}

function jobIds(stateDir: string): string[] {
  const store = openDatabase(join(stateDir, 'jobs.sqlite'), jobTables)
  const jobs = createJobStore(store, { next: () => 0.5 }, { attemptBytes: 2 ** 20, deviceBytesPerDay: 2 ** 20 })
  try {
    return jobs.list({ dead: false, limit: 10 }).map(({ id }) => id)
  } finally {
    store.close()
  }
}

const backupOf = (stateDir: string, out = at('backup'), telemetry = true) => ({
  ...{ stateDir, out, telemetry, clock: systemClock },
  signal: new AbortController().signal,
})
const take = (stateDir: string, out?: string, telemetry?: boolean) => backUp(backupOf(stateDir, out, telemetry))
const putBack = (stateDir: string, replaceIdentity = false, expect?: string) =>
  restore({ from: at('backup'), stateDir, replaceIdentity, expect, actor: 'operator:test' })

describe('a backup', () => {
  it('shows all databases at one moment while the bridge writes', async () => {
    const stateDir = makeState('north')
    const open = (file: string) => new Database(join(stateDir, file))
    const [first, second] = [open('bridge.sqlite'), open('telemetry.sqlite')] as const
    for (const database of [first, second]) {
      database.exec('CREATE TABLE probe (x INTEGER, fill BLOB)')
      const insert = database.prepare('INSERT INTO probe VALUES (0, randomblob(4000))')
      database.transaction(() => Array.from({ length: 2_000 }, () => insert.run()))()
    }
    // A writer that holds one database when the backup begins, and goes on to write both in turn while it is taken.
    first.exec('BEGIN IMMEDIATE')
    let isDone = false
    const taken = take(stateDir).finally(() => {
      isDone = true
    })
    await setImmediate()
    first.exec('COMMIT')
    let written = 0
    while (!isDone) {
      written++
      for (const database of [first, second]) database.prepare('INSERT INTO probe VALUES (?, NULL)').run(written)
      await setImmediate()
    }
    await taken
    const last = (file: string) => {
      const copy = new Database(join(at('backup'), file))
      try {
        expect(copy.pragma('quick_check', { simple: true })).toBe('ok')
        return copy.prepare('SELECT max(x) FROM probe').pluck().get() as number
      } finally {
        copy.close()
      }
    }
    expect(written).toBeGreaterThan(last('bridge.sqlite'))
    expect(last('telemetry.sqlite')).toBe(last('bridge.sqlite'))
    first.close()
    second.close()
  })

  it('holds the TLS key, is private, and leaves out what is asked to be left out', async () => {
    writeFileSync(at('cert.pem'), 'certificate', { mode: 0o644 })
    const stateDir = makeState('north', { cert: at('cert.pem'), key: at('no-such-key.pem') })
    const { files, missing } = await take(stateDir, at('backup'), false)
    const names = readdirSync(at('backup')).sort()
    expect(names).toEqual(['backup.json', 'bridge.sqlite', 'identity.sqlite', 'jobs.sqlite', 'pice.sqlite', 'tls-cert.pem'])
    expect(files.map(({ name }) => name).sort()).toEqual(names.filter((name) => name !== 'backup.json'))
    for (const name of ['', ...names]) expect(statSync(join(at('backup'), name)).mode & 0o077).toBe(0)
    expect(missing).toEqual([at('no-such-key.pem')])
    await expect(take(stateDir)).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE' })
    await expect(take(at('nothing'), at('other'))).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect(readdirSync(dir.path).filter((name) => name.includes('partial'))).toEqual([])
  })

  it('removes what killed backups have left beside it, and nothing else', async () => {
    const stateDir = makeState('north')
    // As the operating system leaves it: the lock is free, the file remains.
    lockFolder(at('killed.partial'))()
    writeFileSync(at('killed.partial/tls-key.pem'), 'key')
    mkdirSync(at('notes.partial'))
    symlinkSync(stateDir, at('link.partial'))
    lockFolder(stateDir)()
    const unlock = lockFolder(at('other.partial'))
    await take(stateDir)
    expect(readdirSync(dir.path).filter((name) => name.includes('partial'))).toEqual([
      'link.partial',
      'notes.partial',
      'other.partial',
    ])
    expect(jobIds(stateDir)).toHaveLength(1)
    await expect(take(stateDir, at('other'))).rejects.toMatchObject({ code: 'STATE_IN_USE' })
    unlock()
  })

  it('holds the configuration file, and no lock', async () => {
    writeFileSync(at('north.yaml'), 'id: north\n', { mode: 0o640 })
    await backUp({ ...backupOf(makeState('north')), config: at('north.yaml') })
    expect(readFileSync(at('backup/bridge.yaml'), 'utf8')).toBe('id: north\n')
    expect(readdirSync(at('backup'))).not.toContain('lock.sqlite')
    await putBack(at('elsewhere'))
    expect(readdirSync(at('elsewhere'))).not.toContain('bridge.yaml')
  })
})

describe('a restore', () => {
  it('returns to the moment of the backup, keeps what it replaces, and never uses the id of a job again', async () => {
    const stateDir = makeState('north')
    await take(stateDir)
    const [before] = jobIds(stateDir)
    const after = submit(stateDir)
    const { replaced } = await putBack(stateDir)
    expect(jobIds(stateDir)).toEqual([before])
    expect(jobIds(replaced!)).toEqual([after, before])
    expect(submit(stateDir)).not.toBe(after)
    expect(jobIds(stateDir)[1]).toBe(before)
    const store = openDatabase(join(stateDir, 'bridge.sqlite'), bridgeTables)
    expect(nextBirth(store)).toBeGreaterThan(1_000)
    store.close()
    const identities = openIdentityStore(stateDir)
    expect(identities.keys().map(({ name }) => name)).toEqual(['sam'])
    expect(identities.audit(1)[0]).toMatchObject({ action: 'bridge.restore', actor: 'operator:test' })
    identities.close()
  })

  it('makes the bridge on a new machine the same one', async () => {
    const stateDir = makeState('north')
    await take(stateDir)
    const { replaced } = await putBack(at('elsewhere'))
    expect(replaced).toBeUndefined()
    const [one, other] = [stateDir, at('elsewhere')].map((folder) => {
      const store = openDatabase(join(folder, 'bridge.sqlite'), bridgeTables)
      const identity = identityOf(store)
      store.close()
      return identity
    })
    expect(other).toEqual(one)
  })

  it('replaces no other bridge unless told, and none that runs', async () => {
    const stateDir = makeState('north')
    await take(stateDir)
    const other = makeState('south')
    await expect(putBack(other)).rejects.toMatchObject({ code: 'IDENTITY_INVALID' })
    expect(jobIds(other)).toHaveLength(1)
    await putBack(other, true)
    expect(jobIds(other)).toEqual(jobIds(stateDir))
    const unlock = lockFolder(stateDir)
    await expect(putBack(stateDir)).rejects.toMatchObject({ code: 'STATE_IN_USE' })
    unlock()
  })

  it('refuses a backup that was altered since its digest was noted', async () => {
    const stateDir = makeState('north')
    const { digest } = await take(stateDir)
    // An admin's key, planted by a user who can write the backup.
    const path = join(at('backup'), 'identity.sqlite')
    const store = openDatabase(path, identityTables)
    store.prepare('DELETE FROM audit').run()
    store.pragma('journal_mode = DELETE')
    store.close()
    const description = JSON.parse(readFileSync(at('backup/backup.json'), 'utf8'))
    const bytes = readFileSync(path)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    for (const file of description.files)
      if (file.name === 'identity.sqlite') Object.assign(file, { sha256, bytes: bytes.length })
    const written = readFileSync(at('backup/backup.json'))
    writeFileSync(at('backup/backup.json'), JSON.stringify(description))
    await expect(putBack(stateDir, false, digest)).rejects.toMatchObject({ code: 'BACKUP_INVALID' })
    expect(await putBack(stateDir)).toMatchObject({ digest: expect.not.stringContaining(digest) })
    // The hash of each file is compared too.
    writeFileSync(at('backup/backup.json'), written)
    await expect(putBack(stateDir, false, digest)).rejects.toMatchObject({ code: 'BACKUP_INVALID' })
  })

  it('replaces a bridge that was started on a new machine, and no device, key or job depends on', async () => {
    await take(makeState('north'))
    const fresh = at('fresh')
    const store = openDatabase(join(fresh, 'bridge.sqlite'), bridgeTables)
    recordStart(store, { bridge: 'bridge-1', fleet: 'default', tlsCert: null, tlsKey: null })
    store.close()
    const identities = openIdentityStore(fresh)
    identities.createKey('operator:test', 'first', 'admin')
    await expect(putBack(fresh)).rejects.toMatchObject({ code: 'IDENTITY_INVALID' })
    identities.close()
    for (const name of readdirSync(fresh)) if (name.startsWith('identity')) rmSync(join(fresh, name))
    // As a command on this machine does.
    localKey(fresh, 'sam')
    const { replaced } = await putBack(fresh)
    expect(readdirSync(replaced!)).toContain('bridge.sqlite')
    expect(jobIds(fresh)).toHaveLength(1)
  })

  it('refuses a damaged backup, and one of a newer release, before it changes anything', async () => {
    const stateDir = makeState('north')
    await take(stateDir)
    const path = join(at('backup'), 'jobs.sqlite')
    const bytes = readFileSync(path)
    bytes[5_000] = bytes[5_000]! ^ 1
    writeFileSync(path, bytes)
    await expect(putBack(stateDir)).rejects.toMatchObject({ code: 'BACKUP_INVALID' })

    const newer = openDatabase(join(stateDir, 'jobs.sqlite'), [...jobTables, 'CREATE TABLE later (x TEXT) STRICT'])
    newer.close()
    renameSync(at('backup'), at('damaged'))
    await take(stateDir)
    openDatabase(join(at('elsewhere'), 'jobs.sqlite'), jobTables).close()
    await expect(putBack(at('elsewhere'))).rejects.toMatchObject({ code: 'STORE_FAILED' })
    expect(readdirSync(at('elsewhere')).sort()).toEqual(expect.not.arrayContaining(['restoring', 'bridge.sqlite']))
    expect(existsSync(join(at('elsewhere'), 'restoring.new'))).toBe(false)
    await expect(putBack(at('damaged'))).rejects.toMatchObject({ code: 'STORE_FAILED' })
  })

  it('that was interrupted keeps the bridge from starting until it is repeated', async () => {
    const stateDir = makeState('north')
    await take(stateDir)
    await putBack(stateDir)
    // As a power cut leaves it between two renames.
    const staging = join(stateDir, 'restoring')
    renameSync(join(stateDir, 'identity.sqlite'), join(stateDir, 'identity.sqlite.tmp'))
    openDatabase(join(staging, 'identity.sqlite'), []).close()
    expect(() => requireRestored(stateDir)).toThrow(expect.objectContaining({ code: 'STORE_FAILED' }))
    await putBack(stateDir)
    expect(() => requireRestored(stateDir)).not.toThrow()
    expect(existsSync(staging)).toBe(false)
    expect(jobIds(stateDir)).toHaveLength(1)
  })
})

it('snapshots begin when no program writes to any of the databases', async () => {
  const paths = ['first', 'second'].map((name) => at(`${name}.sqlite`))
  const stores = paths.map((path) => openDatabase(path, ['CREATE TABLE t (n INTEGER)']))
  const writer = stores[1]!
  writer.exec('BEGIN IMMEDIATE; INSERT INTO t VALUES (1)')
  let waits = 0
  const sleep = async () => {
    waits += 1
    if (waits === 2) writer.exec('COMMIT')
  }
  const snapshots = await openSnapshots(paths, { nowMs: () => 0, sleep }, new AbortController().signal)
  expect(waits).toBe(2)
  expect(snapshots.map((snapshot) => snapshot.prepare('SELECT count(*) FROM t').pluck().get())).toEqual([0, 1])
  for (const store of [...snapshots, ...stores]) store.close()
})
