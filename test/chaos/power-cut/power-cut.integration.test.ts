import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openSpendingDatabase, SpendingLedger } from '../../../agent/disco/spending-ledger.ts'
import { keyFileOf, readDeviceKey } from '../../../agent/identity/key-file.ts'
import { JobLedger, ledgerMigrations } from '../../../agent/jobs/ledger.ts'
import { openSpoolDatabase } from '../../../agent/telemetry/spool.ts'
import { TrialFile } from '../../../agent/trial/trial-file.ts'
import { backUp } from '../../../cloud-bridge/backup/backup.ts'
import { requireRestored, restore } from '../../../cloud-bridge/backup/restore.ts'
import { bridgeDatabases, bridgeTables } from '../../../cloud-bridge/databases.ts'
import { recordStart } from '../../../cloud-bridge/identity/bridge-identity.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { answerTables } from '../../../cloud-bridge/llm/answer-journal.ts'
import { createJobStore } from '../../../cloud-bridge/queue/job-store.ts'
import { jobTables } from '../../../cloud-bridge/queue/job-tables.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { requireStores } from '../../../core/kit/store/require-stores.ts'
import { isMissing } from '../../support/prerequisites.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { spendingOf } from '../../support/spending-of.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { buildRecorder, Disk } from './power-cut.ts'

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const dir = tempDir()
const library = buildRecorder(dir.path) ?? ''
const skips = isMissing('cc on Linux', library !== '')
afterAll(() => dir[Symbol.dispose]())
let count = 0
const fresh = (name: string) => join(dir.path, `${name}-${count++}`)

const Acknowledged = z.object({ queue: z.string(), identity: z.string() })

describe.skipIf(skips)('after a power cut', () => {
  let acknowledged: z.infer<typeof Acknowledged>
  const lefts = { synced: fresh('left'), all: fresh('left') }
  beforeAll(() => {
    const root = fresh('root')
    mkdirSync(root)
    using disk = new Disk(library, fresh('disk'), root)
    const { stdout, stderr, signal } = spawnSync(process.execPath, [path('acknowledge.mjs'), root], { env: disk.env })
    expect(signal, stderr.toString()).toBe('SIGKILL')
    acknowledged = Acknowledged.parse(JSON.parse(stdout.toString()))
    disk.cut(lefts.synced, 'synced')
    disk.cut(lefts.all, 'all')
  })

  describe.each(Object.keys(lefts) as (keyof typeof lefts)[])('that leaves %s names', (names) => {
    const left = lefts[names]

    it('what was never synced is gone', () => {
      expect(existsSync(join(left, 'late')) && readFileSync(join(left, 'late'), 'utf8')).toBe(names === 'all' ? '' : false)
    })

    it('a submitted job is queued', () => {
      expect(jobIds(join(left, 'queue'))).toEqual([acknowledged.queue])
    })

    it('a job that a device has accepted is in its ledger', () => {
      expect(jobsOfDevice(join(left, 'ledger'))).toEqual(['j'])
    })

    it('what was spent and reserved is counted', () => {
      const store = openSpendingDatabase(join(left, 'budget/spending.sqlite'), true, silentLogger())
      const clocks = () => ({ wallMs: 1, boot: 'first', upMs: systemClock.nowMs() })
      const options = { store, windowMs: 3_600_000, clocks, logger: silentLogger() }
      expect(spendingOf(new SpendingLedger(options)).spent('server').dollars).toBeCloseTo(0.2)
      store.close()
    })

    it('a change on trial is known', () => {
      expect(new TrialFile(join(left, 'trial/fleet-config.json'), z.string()).state).toEqual({ kept: 'x' })
    })

    it('keys of devices and operators are valid', () => {
      expect(readDeviceKey(keyFileOf(join(left, 'identity/agent'))).publicKey).toHaveLength(43)
      const store = openIdentityStore(join(left, 'identity/bridge'))
      expect(store.keys().map(({ id }) => id)).toEqual([acknowledged.identity])
      store.close()
    })

    it('a bundle or release that the bridge has published is complete', () => {
      expect(readFileSync(join(left, 'published/bundles/one/parts/part.onnx'), 'utf8')).toBe('part')
    })

    it('an installed bundle is complete', () => {
      const folder = join(left, 'bundle/bundles', 'a'.repeat(64))
      expect(readFileSync(join(folder, 'manifest.json'), 'utf8')).toBe('manifest')
      expect(readFileSync(join(folder, 'parts/part.onnx'), 'utf8')).toBe('part')
    })

    it('a release that was started on trial has the copies of the databases that it may migrate', () => {
      const releases = join(left, 'software/agent/releases')
      expect(['current', 'previous', 'trial'].map((name) => readlinkSync(join(releases, name)))).toEqual(['new', 'old', 'new'])
      expect(jobsOfDevice(join(releases, '.databases'))).toEqual(['j'])
    })

    it('the telemetry spool and the journal of answers lose at most their last entries, and open', () => {
      openSpoolDatabase(join(left, 'spool/spool.sqlite'), silentLogger()).close()
      openDatabase(join(left, 'journal/answers.sqlite'), answerTables, 'NORMAL').close()
      expect([...readdirSync(join(left, 'spool')), ...readdirSync(join(left, 'journal'))]).toEqual(
        expect.not.arrayContaining([expect.stringContaining('damaged')]),
      )
    })
  })
})

describe.skipIf(skips)('a power cut during a command of the bridge', () => {
  const root = fresh('root')
  const [stateDir, backup] = [join(root, 'state'), join(root, 'backups/first')]
  let disk: Disk
  let first: string

  beforeAll(async () => {
    for (const { file, migrations } of bridgeDatabases) openDatabase(join(stateDir, file), migrations).close()
    const store = openDatabase(join(stateDir, 'bridge.sqlite'), bridgeTables)
    const tls = { tlsCert: join(root, 'cert.pem'), tlsKey: join(root, 'key.pem') }
    for (const file of Object.values(tls)) writeFileSync(file, 'PEM')
    recordStart(store, { bridge: 'north', fleet: 'lab', ...tls })
    store.close()
    first = submit(stateDir)
    const { signal } = new AbortController()
    await backUp({ stateDir, out: backup, telemetry: true, clock: systemClock, signal })
    submit(stateDir)
    writeFileSync(join(root, 'bridge.yaml'), 'id: north\n')
  })

  function run(...argv: string[]): string {
    disk = new Disk(library, fresh('disk'), root)
    return execFileSync(process.execPath, [path('../../../dist/brim.js'), 'bridge', ...argv], { env: disk.env }).toString()
  }
  const cut = (names: 'synced' | 'all', after?: number) => disk.cut(fresh('cut'), names, after)
  const fetch = (from: string, to: string, expect?: string) =>
    restore({ from, stateDir: to, expect, replaceIdentity: false, actor: 'operator:test' })

  it('a backup is there as a whole once the command says so, and in part never', async () => {
    const out = 'backups/new/second'
    const printed = run('backup', '--out', join(root, out), '--state-dir', stateDir, '--config', join(root, 'bridge.yaml'))
    const [, digest] = /digest: (\w+)/.exec(printed) ?? []
    for (let after = 0; after <= disk.syncs; after++) {
      const left = join(cut('synced', after), out)
      if (after < disk.syncs && !existsSync(left)) continue
      await fetch(left, fresh('restored'), digest)
      expect(readFileSync(join(left, 'bridge.yaml'), 'utf8')).toBe('id: north\n')
    }
    await fetch(join(cut('all'), out), fresh('restored'), digest)
    disk[Symbol.dispose]()
  })

  it('a restore is done once the command says so; until then the bridge is as before, or starts only after another restore', async () => {
    const before = jobIds(stateDir)
    run('restore', backup, '--state-dir', stateDir)
    const cuts = Array.from({ length: disk.syncs }, (_, after) => cut('synced', after))
    const interrupted = cuts.filter((left) => existsSync(join(left, 'state/restoring')))
    expect(interrupted).not.toEqual([])
    for (const left of interrupted)
      expect(() => requireRestored(join(left, 'state'))).toThrow(expect.objectContaining({ code: 'STORE_FAILED' }))
    // The others differ little.
    const repeated = [interrupted[0]!, interrupted.at(-1)!]
    for (const left of repeated) await fetch(join(left, 'backups/first'), join(left, 'state'))
    for (const left of cuts.filter((left) => !interrupted.includes(left) || repeated.includes(left))) {
      requireStores(join(left, 'state'), bridgeDatabases)
      expect(repeated.includes(left) ? [[first]] : [before, [first]]).toContainEqual(jobIds(join(left, 'state')))
    }
    for (const left of [cut('synced'), cut('all')]) {
      requireRestored(join(left, 'state'))
      requireStores(join(left, 'state'), bridgeDatabases)
      expect(jobIds(join(left, 'state'))).toEqual([first])
      expect(readFileSync(join(left, 'state/tls-key.pem'), 'utf8')).toBe('PEM')
      const store = openIdentityStore(join(left, 'state'))
      expect(store.audit(1)[0]).toMatchObject({ action: 'bridge.restore' })
      store.close()
    }
    disk[Symbol.dispose]()
  })
})

function withJobs<T>(folder: string, use: (jobs: ReturnType<typeof createJobStore>) => T): T {
  const store = openDatabase(join(folder, 'jobs.sqlite'), jobTables)
  try {
    return use(createJobStore(store, { next: () => 0.5 }, { attemptBytes: 2 ** 20, deviceBytesPerDay: 2 ** 20 }))
  } finally {
    store.close()
  }
}

function submit(folder: string): string {
  const job = { kind: 'profile', target: null, priority: 5, key: null, input: '{}', terms: '{}', deadlineMs: 60_000 }
  return withJobs(folder, (jobs) => jobs.submit([job], 0)[0]!.id)
}

const jobIds = (folder: string): string[] => withJobs(folder, (jobs) => jobs.list({ dead: false, limit: 10 }).map(({ id }) => id))

function jobsOfDevice(folder: string): string[] {
  const store = openDatabase(join(folder, 'jobs.sqlite'), ledgerMigrations)
  try {
    const entry = new JobLedger(store).find('b', 'j')
    return entry ? [entry.job] : []
  } finally {
    store.close()
  }
}
