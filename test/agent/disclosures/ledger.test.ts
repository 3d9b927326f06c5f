import { join } from 'node:path'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Disclosures } from '../../../agent/disclosures/disclosures.ts'
import { DisclosureLedger, openDisclosureDatabase } from '../../../agent/disclosures/ledger.ts'
import type { AnswerRequest } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import type { Store } from '../../../core/kit/store/open-database.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { memoryDisclosures } from '../../../lab/bench/hat/memory-disclosures.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { fresh } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const server = new URL('http://10.0.0.9:8000/v1/chat/completions')
const bridge = 'wss://10.0.0.5:7070/v1/data'
const context = { mode: 'auto', reason: 'auto', rule: null } as const
const request = (answer?: number): AnswerRequest => ({
  prompt: new Prompt({ kind: 'text', text: 'Where is it?' }),
  sampling: greedy,
  stop: [],
  client: 'app',
  ...(answer !== undefined && { disclosed: { answer } }),
})

const dir = fresh(tempDir)
let stores: Store[] = []
let now = Date.UTC(2026, 5, 1)
beforeEach(() => {
  now = Date.UTC(2026, 5, 1)
})
afterEach(() => {
  for (const store of stores) store.close()
  stores = []
})

const path = () => join(dir.path, 'disclosures.sqlite')
function open(limits: { maxBytes?: number; maxAgeMs?: number } = {}, logger = silentLogger()) {
  const store = openDisclosureDatabase(path(), logger)
  stores.push(store)
  const ledger = new DisclosureLedger(store, { maxBytes: 2 ** 24, maxAgeMs: 1e12, ...limits }, logger, () => now)
  return new Disclosures(ledger)
}
const all = (disclosures: Disclosures, query = {}) => disclosures.list({ limit: 1_000, ...query }).disclosures
/** What is on disk, as another process reads it now. */
function onDisk(): object[] {
  const reader = new Database(path(), { readonly: true })
  try {
    const rows = reader.prepare('SELECT state, body FROM disclosures ORDER BY id').all() as { state: string; body: string }[]
    return rows.map(({ state, body }) => ({ state, ...(JSON.parse(body) as object) }))
  } finally {
    reader.close()
  }
}

describe('the ledger of disclosures', () => {
  it('has a request before it is sent, and its answer at the end', () => {
    const disclosures = open()
    const { answer, end } = disclosures.begin(context)
    const leaving = disclosures.text('server')(request(answer))
    leaving.request(server, 300)
    expect(onDisk()).toMatchObject([{ state: 'open', content: 'text', requests: 1, bytes: 300 }])
    leaving.received(3)
    leaving.received(4)
    leaving.ended()
    end()
    expect(all(disclosures)).toEqual([
      {
        ...{ id: 1, answer, at: '2026-06-01T00:00:00.000Z', state: 'ended', content: 'text', way: 'server' },
        ...{ destination: '10.0.0.9:8000', ...context, requests: 1, characters: 12, tokens: 7, rows: 0, bytes: 300 },
      },
    ])
  })

  it('is never behind the rows that were sent, and exact at the end', () => {
    const frames = fc.array(fc.tuple(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 50_000 })), {
      minLength: 1,
      maxLength: 40,
    })
    fc.assert(
      fc.property(frames, (sent) => {
        const disclosures = memoryDisclosures(silentLogger())
        const session = disclosures.states(bridge, undefined)
        const total = { rows: 0, bytes: 0 }
        for (const [rows, bytes] of sent) {
          session.rows(rows, bytes)
          total.rows += rows
          total.bytes += bytes
          const [entry] = all(disclosures)
          if (entry!.rows < total.rows || entry!.bytes < total.bytes || entry!.state !== 'open') return false
        }
        session.ended()
        const [entry, ...others] = all(disclosures)
        return entry!.rows === total.rows && entry!.bytes === total.bytes && entry!.state === 'ended' && others.length === 0
      }),
    )
  })

  it('has an answer for which nothing left, or sums in telemetry', () => {
    const disclosures = open()
    disclosures.begin({ mode: 'local', reason: 'client', rule: null }).end()
    disclosures.reportTo(['a:1883', 'b:1883'])
    disclosures.begin({ mode: 'local', reason: 'default', rule: null }).end()
    expect(all(disclosures)).toMatchObject([
      { content: 'nothing', way: null, destination: null, state: 'ended' },
      { content: 'counts', way: null, destination: 'a:1883, b:1883' },
    ])
  })

  it('says of a server that was not reached that nothing went there', () => {
    const disclosures = open()
    const { answer, end } = disclosures.begin(context)
    const leaving = disclosures.text('server')(request(answer))
    leaving.request(server, 300)()
    leaving.ended()
    end()
    expect(all(disclosures)).toMatchObject([{ answer, content: 'text', requests: 0, bytes: 0, state: 'ended' }])
  })

  it('counts requests to one server, and has an entry for each server', () => {
    const disclosures = open()
    const leaving = disclosures.text('bridge')(request())
    leaving.request(server, 300)
    leaving.request(new URL('http://10.0.0.10/v1/answers/1/events'), 0)
    leaving.received(5)
    leaving.request(server, 300)
    leaving.received(1)
    leaving.ended()
    expect(all(disclosures)).toMatchObject([
      { destination: '10.0.0.9:8000', requests: 2, bytes: 600, characters: 12, tokens: 1, mode: null, reason: 'job' },
      { destination: '10.0.0.10', requests: 1, bytes: 0, characters: 0, tokens: 5 },
    ])
  })

  it('marks what a killed agent has left open as interrupted, with the bounds that it had written', () => {
    const killed = open()
    killed.states(bridge, undefined).rows(16, 4_000)
    killed.text('server')(request()).request(server, 300)
    const disclosures = open()
    expect(all(disclosures)).toMatchObject([
      { state: 'interrupted', content: 'states', rows: 16, bytes: 4_000 },
      { state: 'interrupted', content: 'text', requests: 1, tokens: null },
    ])
    expect(disclosures.begin(context).answer).toBe(3)
  })

  it('lists the newest, since a time or after an entry', () => {
    const disclosures = open()
    for (let day = 0; day < 5; day++) {
      now = Date.UTC(2026, 5, 1 + day)
      disclosures.begin(context).end()
    }
    const ids = (query: object) => all(disclosures, query).map(({ id }) => id)
    expect(ids({ limit: 2 })).toEqual([4, 5])
    expect(ids({ after: 3 })).toEqual([4, 5])
    expect(ids({ sinceMs: Date.UTC(2026, 5, 3) })).toEqual([3, 4, 5])
  })

  it('drops entries that are too old, and none while the clock is not set', () => {
    const disclosures = open({ maxAgeMs: 1_000 })
    const start = now
    disclosures.begin(context).end()
    now = 5_000
    disclosures.begin(context).end()
    expect(all(disclosures)).toHaveLength(2)
    now = start + 500
    disclosures.begin(context).end()
    expect(all(disclosures)).toHaveLength(3)
    now = start + 2_000
    disclosures.begin(context).end()
    expect(all(disclosures).map(({ id }) => id)).toEqual([4])
  })

  it('is no larger on disk than its limit, and keeps the newest', () => {
    const disclosures = open({ maxBytes: 65_536 })
    for (let at = 0; at < 2_000; at++) disclosures.begin(context).end()
    const kept = all(disclosures)
    expect(kept.at(-1)!.id).toBe(2_000)
    expect(kept.length).toBeGreaterThan(200)
    const [{ used }] = stores[0]!
      .prepare('SELECT (a.page_count - b.freelist_count) * 4096 AS used FROM pragma_page_count() a, pragma_freelist_count() b')
      .all() as [{ used: number }]
    expect(used).toBeLessThanOrEqual(65_536)
  })
})

describe('a disk that stores nothing', () => {
  /** SQLite refuses every write, as on a full disk. */
  const fail = (store: Store) => store.pragma('query_only = ON')
  const mend = (store: Store) => store.pragma('query_only = OFF')

  it('stops text, not states; says so, and has all entries once it works again', () => {
    const { logger, lines } = recordingLogger('info')
    const disclosures = open({}, logger)
    fail(stores[0]!)
    const text = disclosures.text('server')(request())
    expect(() => text.request(server, 300)).toThrow(expect.objectContaining({ code: 'DISCLOSURE_UNRECORDED' }))
    text.ended()
    const session = disclosures.states(bridge, undefined)
    session.rows(16, 4_000)
    session.rows(100, 9_000)
    session.ended()
    disclosures.begin(context).end()
    expect(disclosures.list({ limit: 9 })).toMatchObject({
      recording: { failure: expect.any(String), unstored: 2 },
      disclosures: [],
    })
    mend(stores[0]!)
    disclosures.text('server')(request()).request(server, 300)
    expect(disclosures.list({ limit: 9 })).toMatchObject({
      recording: { failure: null, unstored: 0 },
      disclosures: [{ content: 'states', rows: 116, bytes: 13_000, state: 'ended' }, { content: 'nothing' }, { content: 'text' }],
    })
    expect(lines.map(({ msg }) => msg)).toEqual([
      'disclosures not stored: answers that show text are refused',
      'disclosures are stored again',
    ])
  })

  it('holds a bounded number of entries in memory', () => {
    const disclosures = open()
    fail(stores[0]!)
    for (let at = 0; at < 1_200; at++) disclosures.begin(context).end()
    expect(disclosures.list({ limit: 9 }).recording.unstored).toBe(1_000)
    mend(stores[0]!)
    disclosures.begin(context).end()
    expect(disclosures.list({ limit: 9 }).recording).toEqual({ failure: null, unstored: 0 })
    expect(all(disclosures, { limit: 2_000 })).toHaveLength(1_001)
  })
})
