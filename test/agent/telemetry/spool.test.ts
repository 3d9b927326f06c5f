import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openSpoolDatabase, Spool, type SpoolOptions, spoolTables } from '../../../agent/telemetry/spool.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import type { SpooledLeaf } from '../../../core/policy/telemetry/spool.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dayMs = 24 * 3_600_000
const noon = Date.UTC(2026, 5, 1, 12)
const mib = 2 ** 20

/** A spool in a folder; opening it again simulates another start of the agent. */
function open(path: string, more: Partial<SpoolOptions> = {}) {
  const store = openDatabase(join(path, 'spool.sqlite'), [spoolTables], 'NORMAL')
  const clock = fakeClock(1_000)
  const time = { ms: noon, isSet: true }
  const { logger, lines } = recordingLogger('warn')
  const limits = { maxBytes: mib, maxAgeMs: 7 * dayMs }
  const spool = new Spool({ store, birth: 1, limits, clock, wall: () => time, logger, ...more })
  return {
    spool,
    store,
    clock,
    time,
    lines,
    /** Advances both clocks. */
    async later(ms: number) {
      time.ms += ms
      await clock.advance(ms)
    },
    next: (leaf: SpooledLeaf = 'telemetry') => {
      const message = spool.next(leaf)
      return message && (JSON.parse(message.text) as Record<string, unknown>)
    },
    drain(leaf: SpooledLeaf = 'telemetry') {
      const all: Record<string, unknown>[] = []
      for (let message = spool.next(leaf); message; message = spool.next(leaf)) {
        all.push(JSON.parse(message.text))
        spool.delete(leaf, message.n)
      }
      return all
    },
    close: () => store.close(),
  }
}

describe('a spool', () => {
  it('returns messages in order, with the times and births at which they were put in', async () => {
    using dir = tempDir()
    const first = open(dir.path)
    first.spool.put('telemetry', { x: 1 })
    await first.later(10_000)
    first.spool.put('telemetry', { x: 2 })
    first.close()
    const second = open(dir.path, { birth: 2 })
    second.time.ms = noon + dayMs
    expect(second.drain()).toEqual([
      { v: 1, at: '2026-06-01T12:00:00.000Z', birth: 1, clockIsSet: true, x: 1, replayed: true },
      { v: 1, at: '2026-06-01T12:00:10.000Z', birth: 1, clockIsSet: true, x: 2, replayed: true },
    ])
    expect(second.spool.figures).toMatchObject({ waiting: 0, dropped: { full: 0, old: 0, unstored: 0 } })
    second.close()
  })

  it('keeps a message until it is deleted', () => {
    using dir = tempDir()
    const { spool, next, close } = open(dir.path)
    spool.put('telemetry', { x: 1 })
    expect([next()?.x, next()?.x]).toEqual([1, 1])
    close()
  })

  it('drops the oldest telemetry when full, logs last, and continues its counters after a restart', () => {
    using dir = tempDir()
    const body = { text: 'x'.repeat(2_000) }
    const first = open(dir.path)
    for (let n = 0; n < 20; n++) first.spool.put('log', { n, ...body })
    for (let n = 0; n < 1_000; n++) first.spool.put('telemetry', { n, ...body })
    const { waiting, bytes, dropped } = first.spool.figures
    expect(bytes).toBeLessThanOrEqual(mib)
    expect(statSync(join(dir.path, 'spool.sqlite')).size).toBeLessThan(1.2 * mib)
    expect(dropped.full).toBeGreaterThan(500)
    expect(waiting! + dropped.full!).toBe(1_020)
    first.close()
    const second = open(dir.path, { birth: 2 })
    expect(second.spool.figures.dropped).toEqual(dropped)
    expect(second.drain('log').map(({ n }) => n)).toEqual(Array.from({ length: 20 }, (_, n) => n))
    expect(second.drain().map(({ n }) => n)).toEqual(Array.from({ length: waiting! - 20 }, (_, n) => n + 1_020 - waiting!))
    second.close()
  })

  it('drops messages that are known to be too old', async () => {
    using dir = tempDir()
    const { spool, later, drain, close } = open(dir.path)
    spool.put('telemetry', { x: 'old' })
    await later(6 * dayMs)
    spool.put('telemetry', { x: 'new' })
    await later(2 * dayMs)
    expect(drain().map(({ x }) => x)).toEqual(['new'])
    expect(spool.figures.dropped).toMatchObject({ old: 1, full: 0 })
    close()
  })

  it('completes times as soon as the clock is set', async () => {
    using dir = tempDir()
    const first = open(dir.path)
    Object.assign(first.time, { ms: 5_000, isSet: false })
    first.spool.put('telemetry', { x: 1 })
    expect(first.next()).toMatchObject({ at: '1970-01-01T00:00:05.000Z', clockIsSet: false })
    await first.later(60_000)
    Object.assign(first.time, { ms: noon, isSet: true })
    first.spool.put('telemetry', { x: 2 })
    first.close()
    // Also after a restart.
    const second = open(dir.path, { birth: 2 })
    expect(second.drain()).toMatchObject([
      { at: '2026-06-01T11:59:00.000Z', clockIsSet: true, x: 1 },
      { at: '2026-06-01T12:00:00.000Z', clockIsSet: true, x: 2 },
    ])
    second.close()
  })

  it('completes times later if the disk fails at first', async () => {
    using dir = tempDir()
    const { spool, store, time, later, drain, close } = open(dir.path)
    Object.assign(time, { ms: 5_000, isSet: false })
    spool.put('telemetry', { x: 1 })
    await later(60_000)
    Object.assign(time, { ms: noon, isSet: true })
    store.pragma('query_only = ON')
    spool.put('telemetry', { x: 'lost' })
    store.pragma('query_only = OFF')
    expect(drain()).toMatchObject([{ at: '2026-06-01T11:59:00.000Z', clockIsSet: true, x: 1 }])
    close()
  })

  it('marks a time that can never be known', () => {
    using dir = tempDir()
    const first = open(dir.path)
    Object.assign(first.time, { ms: 5_000, isSet: false })
    first.spool.put('telemetry', { x: 1 })
    first.close()
    const second = open(dir.path, { birth: 2 })
    second.spool.put('telemetry', { x: 2 })
    expect(second.drain()).toMatchObject([
      { at: '1970-01-01T00:00:05.000Z', clockIsSet: false, birth: 1, x: 1 },
      { clockIsSet: true, birth: 2, x: 2 },
    ])
    second.close()
  })

  it('survives a disk that stores nothing: logs it once and counts the dropped messages', () => {
    using dir = tempDir()
    const { spool, store, lines, drain, close } = open(dir.path)
    spool.put('telemetry', { x: 1 })
    // For SQLite the same as a full or read-only disk.
    store.pragma('query_only = ON')
    for (let n = 0; n < 3; n++) spool.put('telemetry', { x: 'lost' })
    expect(spool.figures).toMatchObject({ waiting: 1, dropped: { unstored: 3 } })
    expect(lines).toMatchObject([{ msg: 'message not spooled' }])
    store.pragma('query_only = OFF')
    spool.put('telemetry', { x: 2 })
    expect(drain().map(({ x }) => x)).toEqual([1, 2])
    close()
    const again = open(dir.path)
    expect(again.spool.figures).toMatchObject({ waiting: 0, dropped: { unstored: 3 } })
    again.close()
  })

  it('drops a corrupt message and continues with the next', () => {
    using dir = tempDir()
    const { spool, store, next, close } = open(dir.path)
    for (const x of [1, 2]) spool.put('telemetry', { x })
    store.exec("UPDATE spool SET body = '{' WHERE n = 1")
    expect([next()?.x, next()?.x]).toEqual([undefined, 2])
    expect(spool.figures).toMatchObject({ waiting: 1, dropped: { unstored: 1 } })
    close()
  })

  it.each([
    ['completely', 0],
    ['after its first page', 4_096],
  ])('is replaced by an empty one if its file is corrupt %s', (_, from) => {
    using dir = tempDir()
    const first = open(dir.path)
    first.spool.put('telemetry', { x: 1 })
    first.close()
    const path = join(dir.path, 'spool.sqlite')
    const bytes = readFileSync(path)
    writeFileSync(path, bytes.fill('x', from))
    const { logger, lines } = recordingLogger('warn')
    openSpoolDatabase(path, logger).close()
    expect(lines).toMatchObject([{ msg: 'spool.sqlite damaged: set aside, and begun anew' }])
    const second = open(dir.path)
    second.spool.put('telemetry', { x: 2 })
    expect(second.drain().map(({ x }) => x)).toEqual([2])
    second.close()
  })

  it('neither loses nor invents messages, whatever is put in and deleted, across restarts', () => {
    type Act = { put: SpooledLeaf } | { take: SpooledLeaf } | 'restart'
    const leaf = fc.constantFrom<SpooledLeaf>('telemetry', 'log')
    const act: fc.Arbitrary<Act> = fc.oneof(
      leaf.map((put) => ({ put })),
      leaf.map((take) => ({ take })),
      fc.constant<'restart'>('restart'),
    )
    fc.assert(
      fc.property(fc.array(act, { maxLength: 30 }), (acts) => {
        using dir = tempDir()
        let opened = open(dir.path)
        const model: Record<SpooledLeaf, number[]> = { telemetry: [], log: [] }
        acts.forEach((what, x) => {
          if (what === 'restart') {
            opened.close()
            opened = open(dir.path, { birth: x + 2 })
          } else if ('put' in what) {
            opened.spool.put(what.put, { x })
            model[what.put].push(x)
          } else {
            const message = opened.spool.next(what.take)
            expect(message && JSON.parse(message.text).x).toBe(model[what.take].shift())
            if (message) opened.spool.delete(what.take, message.n)
          }
          expect(opened.spool.figures.waiting).toBe(model.telemetry.length + model.log.length)
        })
        opened.close()
      }),
      { numRuns: 20 },
    )
  })
})
