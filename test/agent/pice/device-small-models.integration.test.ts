import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { DeviceSmallModels } from '../../../agent/pice/device-small-models.ts'
import { SpeedStore, speedTable } from '../../../agent/pice/speed-store.ts'
import { openLocalModel } from '../../../agent/slm/local-model.ts'
import { ModelPool } from '../../../agent/slm/model-pool.ts'
import { type ModelSource, readModelSource } from '../../../agent/slm/model-source.ts'
import type { ServerModel } from '../../../agent/slm/server-model.ts'
import { openServerModel } from '../../../agent/slm/server-model.ts'
import { generalPrompts } from '../../../core/answer/sketch/prompts.ts'
import { leftByClients } from '../../../core/answer/upstream/leaving.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { SmallModelProfile } from '../../../core/wire/protocol/profile.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { buildSlmBundle } from '../../support/agent-world.ts'
import { failing, scriptedUpstream, streamed } from '../../support/scripted-upstream.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const never = new AbortController().signal
const dir = tempDir()
/** A model of one layer, and one of more. */
let small: ModelSource
let large: ModelSource
beforeAll(async () => {
  small = await readModelSource(await buildSlmBundle(dir.path))
  const out = join(dir.path, 'large')
  await buildBundle({ checkpoint: fixtureDir('llama'), out, format: 'fp32', name: 'tiny-large' })
  large = await readModelSource(out)
})
afterAll(() => dir[Symbol.dispose]())

interface Settings {
  readonly sources?: readonly ModelSource[]
  readonly limitBytes?: number
  readonly server?: ServerModel
  readonly file?: string
}

function open({ sources = [small, large], limitBytes = 2 ** 30, server, file = `${Math.random()}` }: Settings = {}) {
  const store = openDatabase(join(dir.path, file), [speedTable])
  const pool = new ModelPool({
    open: (bundle, kept) => openLocalModel({ bundle, threads: 1, kept }),
    settings: { limitBytes, reserveBytes: 0 },
    freeBytes: () => 2 ** 40,
    clock: systemClock,
    logger: silentLogger(),
  })
  pool.setSources(sources)
  const models = new DeviceSmallModels({
    pool,
    server,
    limitBytes,
    threads: 1,
    speeds: new SpeedStore(store, silentLogger()),
    promptsOf: async () => generalPrompts,
    llm: () => undefined,
    clock: systemClock,
    logger: silentLogger(),
  })
  const close = async () => {
    await models.close()
    await pool.close()
    if (store.open) store.close()
  }
  onTestFinished(close)
  const use = async (name: string) => {
    const { loadMs, release } = await models.borrow(name, never)
    release()
    return loadMs
  }
  return { models, pool, store, use, close }
}

const server = (url: string) =>
  openServerModel({
    leavingOf: leftByClients,
    ...{ url, model: 'served', clock: systemClock, random: seededRandom(1), logger: silentLogger() },
    limits: {
      ...{ requests: 16, queue: 64, retries: 0, maxRetryAfterMs: 0, connectMs: 2_000, firstTokenMs: 2_000, idleMs: 2_000 },
      ...{ totalMs: 5_000, eventChars: 2 ** 16, answerBytes: 2 ** 16 },
    },
  })

describe('the small models of a device', () => {
  it('are listed by size before anything is measured, as fast as their size suggests', () => {
    const { models } = open()
    const [first, second] = models.list()
    expect([first?.model, second?.model]).toEqual(['tiny-slm', 'tiny-large'])
    expect(second!.loadS).toBeGreaterThan(first!.loadS)
    expect(models.current).toBeUndefined()
  })

  it('are measured when they are new, and known after a restart', async () => {
    const file = 'measured.sqlite'
    const { models, pool, close } = open({ file })
    models.start()
    await expect.poll(() => models.list().every(({ parallel }) => parallel.length > 0)).toBe(true)
    const measured = models.list()
    for (const { ttftS, tpotS, loadS } of measured) for (const value of [ttftS, tpotS, loadS]) expect(value).toBeGreaterThan(0)
    // A model takes memory only when it is used.
    await expect.poll(() => pool.folders).toEqual([])
    await close()
    expect(open({ file }).models.list()).toEqual(measured)
  })

  it('take turns where memory holds one, each with the time to open it', async () => {
    const { models, use } = open({ limitBytes: large.bytes })
    expect(await use('tiny-slm')).toBeGreaterThan(0)
    expect(await use('tiny-slm')).toBe(0)
    expect([models.current, models.list()[0]?.loadS]).toEqual(['tiny-slm', 0])
    expect(await use('tiny-large')).toBeGreaterThan(0)
    expect(models.current).toBe('tiny-large')
    expect(await use('tiny-slm')).toBeGreaterThan(0)
  })

  it('are profiled thoroughly, and open afterwards as before', async () => {
    const { models, pool, use } = open({ limitBytes: large.bytes })
    await use('tiny-slm')
    const profile = await models.profile('tiny-large', never)
    expect(SmallModelProfile.parse(profile)).toMatchObject({ model: 'tiny-large', tokensPerLlmToken: 1 })
    expect(profile).toMatchObject({ modelId: large.modelId, bytes: large.bytes })
    expect(profile.parallel.map(([sequences]) => sequences)).toEqual([2, 4, 8, 16])
    expect(profile.lengths.map(({ tokens }) => tokens)).toEqual([32, 128])
    expect(profile.lengths[1]!.ms).toBeGreaterThan(profile.lengths[0]!.ms)
    expect([models.current, pool.isOpen('tiny-large')]).toEqual(['tiny-slm', false])
  })

  it('are corrected by what expansions take', async () => {
    const { models, store } = open({ sources: [small] })
    await models.profile('tiny-slm', never)
    const [before] = models.list()
    for (let at = 0; at < 10; at++) models.record({ model: 'tiny-slm', sequences: 1, tokens: 100, tookMs: 60_000 })
    expect(models.list()[0]!.tpotS).toBeGreaterThan(4 * before!.tpotS)
    models.record({ model: 'nosuch', sequences: 1, tokens: 100, tookMs: 60_000 })
    // The disk fails.
    store.close()
    const corrected = models.list()[0]!.tpotS
    models.record({ model: 'tiny-slm', sequences: 1, tokens: 100, tookMs: 60_000 })
    expect(models.list()[0]!.tpotS).toBeGreaterThan(corrected)
  })

  it('leave out those that are too large or broken', async () => {
    const broken = { ...large, name: 'broken', manifestSha256: 'broken', folder: join(dir.path, 'nowhere') }
    const { models, use } = open({ sources: [small, broken, large], limitBytes: large.bytes - 1 })
    expect(models.list().map(({ model }) => model)).toEqual(['tiny-slm'])
    await expect(use('tiny-large')).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    const roomy = open({ sources: [small, broken] })
    roomy.models.start()
    await expect.poll(() => roomy.models.list().map(({ model }) => model)).toEqual(['tiny-slm'])
    await expect(roomy.models.profile('broken', never)).rejects.toMatchObject({ code: 'BUNDLE_INVALID' })
  })

  it('include the one on a server once it has answered', async () => {
    const words = 'one two three four five six seven eight'.split(' ').map((word) => `${word} `)
    await using upstream = await scriptedUpstream(streamed(...words))
    const { models, pool } = open({ sources: [small], server: server(upstream.url) })
    expect(models.list().map(({ model }) => model)).toEqual(['tiny-slm'])
    const profile = await models.profile('served', never)
    expect(profile).toMatchObject({ model: 'served', modelId: null, bytes: null, loadMs: 0 })
    expect(models.list().map(({ model, loadS }) => [model, loadS])[1]).toEqual(['served', 0])
    const { open: opened, loadMs } = await models.borrow('served', never)
    expect([opened.kind, loadMs, models.current, pool.folders]).toEqual(['server', 0, 'served', []])
  })

  it('do without a server that cannot be reached', async () => {
    await using upstream = await scriptedUpstream(failing(503))
    const { models } = open({ sources: [], server: server(upstream.url) })
    models.start()
    await expect.poll(() => upstream.requests.length).toBeGreaterThan(0)
    expect(models.list()).toEqual([])
    await expect(models.profile('served', never)).rejects.toMatchObject({ code: 'UPSTREAM_FAILED' })
  })
})
