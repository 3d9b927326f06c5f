import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type DeviceRoutesOptions, deviceRoutes } from '../../../cloud-bridge/api/devices.ts'
import { createHistory, historyTables } from '../../../cloud-bridge/fleet/history.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import type { DeviceTelemetry } from '../../../core/wire/protocol/messages.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { startTestHttp } from '../../support/http.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const noon = Date.UTC(2026, 5, 1, 12)
const iso = (s: number) => new Date(noon + s * 1_000).toISOString()
const sample = (s: number, more: Partial<DeviceTelemetry> = {}): DeviceTelemetry => ({
  v: 1,
  at: iso(s),
  birth: 1,
  link: null,
  speed: { prefillTokensPerS: s, draftStepMs: null },
  ...more,
})

function open(path: string, maxSamples = 1_000) {
  const store = openDatabase(join(path, 'telemetry.sqlite'), historyTables, 'NORMAL')
  const { logger, lines } = recordingLogger('warn')
  const history = createHistory({
    store,
    maxSamples,
    maxDeviceBytes: 2 ** 30,
    clock: fakeClock(),
    wallMs: () => noon + 1e6,
    logger,
  })
  return {
    history,
    store,
    lines,
    /** Times of the samples, in seconds after noon. */
    times: (device: string, sinceS?: number, limit = 10_000) =>
      history
        .of(device, { sinceMs: sinceS === undefined ? undefined : noon + sinceS * 1_000, limit })
        .samples.map(({ at }) => (Date.parse(at) - noon) / 1_000),
    async close() {
      await history.close()
      store.close()
    },
  }
}

describe('the history of telemetry', () => {
  it('returns the samples of each device in order of measurement, after a restart too', async () => {
    using dir = tempDir()
    const before = open(dir.path)
    for (const s of [50, 60, 10, 20])
      before.history.add('a', { telemetry: sample(s, s < 50 ? { replayed: true } : {}), isBase: false })
    before.history.add('b', { telemetry: sample(5), isBase: false })
    await before.close()
    const { history, times, close } = open(dir.path)
    expect([times('a'), times('b'), times('c')]).toEqual([[10, 20, 50, 60], [5], []])
    const { v: _, ...first } = sample(10, { replayed: true })
    expect(history.of('a', { limit: 9 }).samples[0]).toEqual({ ...first, heardAt: new Date(noon + 1e6).toISOString() })
    await close()
  })

  it('leaves out a damaged sample', async () => {
    using dir = tempDir()
    const { history, store, lines, times, close } = open(dir.path)
    for (const s of [10, 20, 30]) history.add('a', { telemetry: sample(s), isBase: false })
    expect(times('a')).toEqual([10, 20, 30])
    store.prepare("UPDATE samples SET body = '{' WHERE at_ms = ?").run(noon + 20_000)
    expect(times('a')).toEqual([10, 30])
    expect(lines).toMatchObject([{ msg: 'stored sample damaged: left out' }])
    await close()
  })

  it('stores a repeated sample once', async () => {
    using dir = tempDir()
    const { history, times, close } = open(dir.path)
    for (const s of [10, 10]) history.add('a', { telemetry: sample(s, { replayed: true }), isBase: false })
    history.add('a', { telemetry: sample(10, { birth: 2 }), isBase: false })
    expect(times('a')).toEqual([10, 10])
    await close()
  })

  it('retains the newest samples of each device', async () => {
    using dir = tempDir()
    const { history, times, close } = open(dir.path, 100)
    history.add('quiet', { telemetry: sample(1), isBase: false })
    for (let s = 0; s < 500; s++) history.add('loud', { telemetry: sample(s), isBase: false })
    const retained = times('loud')
    expect(retained.length).toBeGreaterThanOrEqual(100)
    expect(retained.length).toBeLessThan(200)
    expect([retained.at(-1), times('quiet')]).toEqual([499, [1]])
    await close()
  })

  it('is read in pages', async () => {
    using dir = tempDir()
    const { history, times, close } = open(dir.path)
    for (let s = 1; s <= 5; s++) history.add('a', { telemetry: sample(s), isBase: false })
    expect(times('a', undefined, 2)).toEqual([4, 5])
    expect(times('a', 0, 2)).toEqual([1, 2])
    expect(times('a', 2, 2)).toEqual([3, 4])
    expect(history.of('a', { sinceMs: noon + 3_000, limit: 2 }).more).toBe(false)
    expect(history.of('a', { sinceMs: noon + 2_000, limit: 2 }).more).toBe(true)
    await close()
  })

  it('orders samples by the time of receipt if the clock of the device was not set', async () => {
    using dir = tempDir()
    const { history, close } = open(dir.path, 1)
    history.add('a', { telemetry: sample(10), isBase: false })
    const early = { at: '1970-01-01T00:00:05.000Z', clockIsSet: false }
    history.add('a', { telemetry: sample(0, { ...early, birth: 2 }), isBase: false })
    const { samples, nextMs } = history.of('a', { limit: 1 })
    expect([samples, nextMs]).toMatchObject([[{ ...early, heardAt: new Date(noon + 1e6).toISOString() }], noon + 1e6])
    await close()
  })

  it('stores the samples of a device whose clock was years ahead', async () => {
    using dir = tempDir()
    const { history, times, close } = open(dir.path, 3)
    const years = 5 * 366 * 86_400
    for (let i = 0; i < 80; i++) history.add('a', { telemetry: sample(years + i), isBase: false })
    for (const s of [1_200, 1_210]) history.add('a', { telemetry: sample(s), isBase: false })
    expect(times('a').slice(-3)).toEqual([years + 79, 1_200, 1_210])
    await close()
  })

  it('stores every sample of a device without a set clock, even if they arrive together', async () => {
    using dir = tempDir()
    const { history, close } = open(dir.path)
    for (let i = 0; i < 5; i++) history.add('a', { telemetry: sample(i, { clockIsSet: false, replayed: true }), isBase: false })
    const { samples } = history.of('a', { limit: 9 })
    expect(samples.map(({ speed }) => speed.prefillTokensPerS)).toEqual([0, 1, 2, 3, 4])
    await close()
  })

  it('stores nothing at a size of 0', async () => {
    using dir = tempDir()
    const { history, times, close } = open(dir.path, 0)
    history.add('a', { telemetry: sample(1), isBase: false })
    expect(times('a')).toEqual([])
    await close()
  })

  it('survives a database that is not writable, and logs it once', async () => {
    using dir = tempDir()
    const { history, store, lines, times, close } = open(dir.path)
    store.pragma('query_only = ON')
    for (let s = 0; s < 2; s++) {
      history.add('a', { telemetry: sample(s), isBase: false })
      expect(times('a')).toEqual([])
    }
    expect(lines).toMatchObject([{ msg: 'telemetry not stored' }])
    store.pragma('query_only = OFF')
    history.add('a', { telemetry: sample(9), isBase: false })
    expect(times('a')).toEqual([9])
    await close()
  })

  it('is served page by page, and rejects a malformed time or limit', async () => {
    using dir = tempDir()
    const { history, close } = open(dir.path)
    for (let s = 1; s <= 3; s++) history.add('a', { telemetry: sample(s), isBase: false })
    const fleet = { device: (id: string) => ({ id }) }
    await using http = await startTestHttp([deviceRoutes({ fleet, history } as unknown as DeviceRoutesOptions)])
    const page = async (device: string, query = '') => (await http.get(`/v1/devices/${device}/telemetry?${query}`)).json()
    expect(await page('a', `since=${iso(1)}&limit=1`)).toMatchObject({
      device: 'a',
      samples: [{ at: iso(2) }],
      more: true,
      next: iso(2),
    })
    expect(await page('a', `since=${iso(3)}`)).toMatchObject({ samples: [], more: false, next: iso(3) })
    expect(await page('b')).toMatchObject({ samples: [], more: false, next: null })
    for (const query of ['since=yesterday', 'limit=0', 'limit=many', 'limit=5001'])
      expect(await page('a', query)).toMatchObject({ error: { code: 'REQUEST_INVALID' } })
    await close()
  })
})
