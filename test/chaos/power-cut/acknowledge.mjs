// Stores one thing in each place that acknowledges things, each in a folder of its own below the one that is named, prints what was
// acknowledged, and is killed at once. A process of its own, so that it can be started with record-syncs.c.
import { mkdirSync, writeFileSync, writeSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BundleFolder } from '../../../dist/agent/bundles/bundle-folder.js'
import { openSpendingDatabase, SpendingLedger } from '../../../dist/agent/disco/spending-ledger.js'
import { keyFileOf, makeKey } from '../../../dist/agent/identity/key-file.js'
import { JobLedger, ledgerMigrations } from '../../../dist/agent/jobs/ledger.js'
import { Software } from '../../../dist/agent/software/software.js'
import { openSpoolDatabase, Spool } from '../../../dist/agent/telemetry/spool.js'
import { TrialFile } from '../../../dist/agent/trial/trial-file.js'
import { publishFolder } from '../../../dist/cloud-bridge/bundles/publishing.js'
import { openIdentityStore } from '../../../dist/cloud-bridge/identity/store.js'
import { AnswerJournal } from '../../../dist/cloud-bridge/llm/answer-journal.js'
import { createJobStore } from '../../../dist/cloud-bridge/queue/job-store.js'
import { jobTables } from '../../../dist/cloud-bridge/queue/job-tables.js'
import { systemClock } from '../../../dist/core/kit/base/clock.js'
import { openDatabase } from '../../../dist/core/kit/store/open-database.js'

const logger = { warn() {}, error() {}, info() {}, debug() {} }
const clock = systemClock
/** Keeps databases from being closed, and so synced, by the collection of garbage. */
const open = []
const keep = (object) => {
  open.push(object)
  return object
}
const spent = { promptTokens: 1, autoPromptTokens: 0, tokens: 1, dollars: 0.1, joules: 0 }

const places = {
  queue(dir) {
    const store = openDatabase(join(dir, 'jobs.sqlite'), jobTables)
    const jobs = keep(createJobStore(store, { next: () => 0.5 }, { attemptBytes: 2 ** 20, deviceBytesPerDay: 2 ** 20 }))
    const job = { kind: 'profile', target: null, priority: 5, key: null, input: '{}', terms: '{}', deadlineMs: 60_000 }
    return jobs.submit([job], 0)[0].id
  },
  ledger(dir) {
    const ledger = keep(new JobLedger(openDatabase(join(dir, 'jobs.sqlite'), ledgerMigrations)))
    return ledger.add('mqtt://bridge', { bridge: 'b', job: 'j', attempt: 1, kind: 'profile', input: {} })
  },
  spool(dir) {
    const store = openSpoolDatabase(join(dir, 'spool.sqlite'), logger)
    const limits = { maxBytes: 2 ** 20, maxAgeMs: 60_000 }
    const wall = () => ({ ms: 1, isSet: true })
    keep(new Spool({ store, birth: 1, limits, clock, wall, logger })).put('telemetry', { n: 1 })
  },
  journal(dir) {
    const options = { stateDir: dir, modelIds: ['m'], graceMs: 60_000, maxDetached: 9, clock, logger }
    const journal = keep(new AnswerJournal(options))
    journal.begin('a', 'client', 'm', {})
  },
  budget(dir) {
    const store = openSpendingDatabase(join(dir, 'spending.sqlite'), true, logger)
    const clocks = () => ({ wallMs: 1, boot: 'first', upMs: clock.nowMs() })
    const ledger = keep(new SpendingLedger({ store, windowMs: 3_600_000, clocks, logger }))
    ledger.write({ kind: 'add', account: 'server', spending: spent })
    ledger.write({ kind: 'reserve', id: 1, account: 'server', spending: spent })
  },
  trial(dir) {
    new TrialFile(join(dir, 'fleet-config.json'), z.string()).set({ kept: 'x' })
  },
  identity(dir) {
    const store = keep(openIdentityStore(join(dir, 'bridge')))
    makeKey(keyFileOf(join(dir, 'agent')))
    return store.createKey('operator:test', 'sam', 'admin').id
  },
  software(dir) {
    const stateDir = join(dir, 'agent')
    const store = openDatabase(join(stateDir, 'jobs.sqlite'), ledgerMigrations)
    new JobLedger(store).add('mqtt://bridge', { bridge: 'b', job: 'j', attempt: 1, kind: 'profile', input: {} })
    store.close()
    const software = new Software({ path: join(stateDir, 'releases'), running: 'old', stateDir })
    software.begin('job', 'new', undefined)
    try {
      software.switchOver()
    } catch (error) {
      return error.code
    }
  },
  published(dir) {
    const staged = join(dir, '.incoming/one')
    mkdirSync(join(staged, 'parts'), { recursive: true })
    writeFileSync(join(staged, 'parts/part.onnx'), 'part', { flush: true })
    publishFolder(staged, join(dir, 'bundles/one'))
  },
  async bundle(dir) {
    const folder = new BundleFolder(dir)
    const version = { modelId: 'a'.repeat(64), manifestSha256: 'b'.repeat(64) }
    const partial = await folder.partial(version)
    mkdirSync(join(partial, 'parts'))
    // As fetch-file.ts and fetch-bundle.ts write them.
    await writeFile(join(partial, 'parts/part.onnx'), 'part', { flush: true })
    await writeFile(join(partial, 'manifest.json'), 'manifest', { flush: true })
    return folder.install(version)
  },
}

const [root] = process.argv.slice(2)
const acknowledged = {}
for (const [name, store] of Object.entries(places)) acknowledged[name] = await store(join(root, name))
writeSync(1, JSON.stringify(acknowledged))
// What is written after this is not on the disk.
writeFileSync(join(root, 'late'), 'late')
process.kill(process.pid, 'SIGKILL')
