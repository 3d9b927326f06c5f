import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PageKeys } from '../../../cloud-bridge/serving/page-keys.ts'
import type { Serving } from '../../../cloud-bridge/serving/serving.ts'
import type { SlowTier } from '../../../cloud-bridge/serving/slow-tier.ts'
import { type FileTierOptions, fileTier } from '../../../cloud-bridge/serving/slow-tier-file.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { someIds, workshop } from '../../core/model/engine/models.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { servedOf, testServing } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const keepMs = 300_000
const options = {
  budgetBytes: 2 ** 24,
  clientBytes: 2 ** 24,
  keepMs,
  models: ['test'],
  clock: systemClock,
  logger: silentLogger(),
}

const bench = shared(workshop)
const model = shared(() => bench.open({ format: 'fp32', split: 1 }))
const dir = shared(tempDir)
let folders = 0

const newFolder = () => join(dir.path, `kv-${++folders}`)
const tierIn = (folder: string, more: Partial<FileTierOptions> = {}) => fileTier({ ...options, ...more, folder })

/** A bridge's serving, with its files in a folder, and the rows that its steps have computed. */
function serve(folder: string, more: { readonly kvModel?: string; readonly tier?: Partial<FileTierOptions> } = {}) {
  const served = servedOf(model)
  const { kvModel = 'test', tier } = more
  const computed = { rows: 0 }
  const serving = testServing(served, {
    tiers: { slow: tierIn(folder, { models: [kvModel], ...tier }), kvModel },
    kv: { prefixMs: keepMs },
    onStep: ({ tokens }) => {
      computed.rows += tokens
    },
  })
  return { serving, computed }
}

const prompt = () => someIds(model.manifest, 100, 3)

/** @param stopAfter tokens, after which the client goes away */
async function answer(serving: Serving, ids: readonly number[], { owner = 'client app', stopAfter = 40, maxTokens = 40 } = {}) {
  const stream = serving.openTokens(owner, { ids, answered: [], eos: [], sampling: greedy, maxTokens })
  const tokens: number[] = []
  while (tokens.length < stopAfter) {
    const { choices, end } = await stream.next()
    tokens.push(...choices.map(({ token }) => token))
    if (end) break
  }
  return { tokens, stream }
}

/** A folder as a process leaves it that was killed while it wrote an answer, and the tokens that its client has. */
async function killed(): Promise<{ readonly folder: string; readonly sent: number[]; readonly whole: number[] }> {
  const folder = newFolder()
  const { serving } = serve(folder)
  const { tokens: sent, stream } = await answer(serving, prompt(), { stopAfter: 20 })
  await untilWritten(folder)
  const left = newFolder()
  cpSync(folder, left, { recursive: true })
  await stream.close()
  const { tokens: whole } = await answer(serving, prompt())
  await serving.close()
  return { folder: left, sent, whole }
}

/** Pages are written behind the steps: resolves once the files have not grown for a while. */
async function untilWritten(folder: string): Promise<void> {
  const size = () => readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
  for (let before = -1, same = 0; same < 5; before = size()) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    same = size() > 0 && size() === before ? same + 1 : 0
  }
}

/** The same answer, with the tokens that its client has. */
async function goOn(
  folder: string,
  sent: readonly number[],
  more: Parameters<typeof serve>[1] & { readonly owner?: string } = {},
) {
  const { serving, computed } = serve(folder, more)
  const { tokens } = await answer(serving, [...prompt(), ...sent], { maxTokens: 40 - sent.length, ...more })
  const used = serving.slow?.usedBytes
  await serving.close()
  return { tokens: [...sent, ...tokens], rows: computed.rows, used }
}

describe('pages of an answer that a killed process has left', () => {
  it('are loaded by the answer that goes on, whose tokens are the same', async () => {
    const { folder, sent, whole } = await killed()
    const { tokens, rows } = await goOn(folder, sent)
    expect(tokens).toEqual(whole)
    // All but one incomplete page of the prompt and the first tokens, and the last pages, whose write had not begun.
    expect(rows).toBeLessThan(40 - sent.length + 3 * 16)
  })

  it('are never used where they are cut short or altered, wherever that is', async () => {
    const { folder, sent, whole } = await killed()
    const damage = fc.record({
      how: fc.constantFrom('cut', 'flip a bit', 'fill'),
      at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    })
    let loaded = 0
    await fc.assert(
      fc.asyncProperty(fc.array(damage, { minLength: 1, maxLength: 3 }), async (damages) => {
        const damaged = newFolder()
        cpSync(folder, damaged, { recursive: true })
        for (const name of readdirSync(damaged)) for (const each of damages) harm(join(damaged, name), each)
        const { tokens, rows } = await goOn(damaged, sent)
        if (rows < prompt().length) loaded += 1
        expect(tokens).toEqual(whole)
      }),
      {
        numRuns: 40,
        examples: [[[{ how: 'cut', at: 0 }]], [[{ how: 'cut', at: 0.999 }]], [[{ how: 'fill', at: 0.3 }]]],
      },
    )
    expect(loaded).toBeGreaterThan(0)
  })

  it.each([
    ['another client asks', { owner: 'client other' }],
    ['another user of the same client asks', { owner: 'client app/user' }],
    ['the model is another one', { kvModel: 'other' }],
    ['nothing is to be kept', { tier: { keepMs: 0 } }],
    ['the budget is smaller than the files', { tier: { budgetBytes: 1 } }],
    ["the client's share is smaller than the files", { tier: { clientBytes: 1 } }],
  ])('are not loaded where %s', async (_, more) => {
    const { folder, sent, whole } = await killed()
    const { tokens, rows } = await goOn(folder, sent, more)
    expect(tokens).toEqual(whole)
    expect(rows).toBeGreaterThanOrEqual(prompt().length)
  })

  it('are deleted with the start where they are of no use', async () => {
    const { folder } = await killed()
    const pathOf = (at: string) => join(at, readdirSync(folder)[0]!)
    const spoil: [string, Partial<FileTierOptions>, (path: string) => void][] = [
      ['another model', { models: ['other'] }, () => {}],
      ['nothing kept', { keepMs: 0 }, () => {}],
      ['too old', {}, (path) => utimesSync(path, new Date(), new Date(Date.now() - keepMs))],
      ['readable by others', {}, (path) => chmodSync(path, 0o644)],
      [
        'another format',
        {},
        (path) => writeFileSync(path, Buffer.concat([Buffer.from('BRIMKV0\n'), readFileSync(path).subarray(8)])),
      ],
      ['no pages', {}, (path) => truncateSync(path, 600)],
    ]
    for (const [what, more, change] of spoil) {
      const copy = newFolder()
      cpSync(folder, copy, { recursive: true, preserveTimestamps: true })
      change(pathOf(copy))
      const tier = tierIn(copy, more)
      expect(readdirSync(copy), what).toEqual([])
      expect(tier.usage.usedBytes, what).toBe(0)
      await tier.close()
    }
    const tier = tierIn(folder)
    expect(readdirSync(folder)).toHaveLength(1)
    expect(tier.usage.usedBytes).toBeGreaterThan(0)
    await tier.close()
  })

  it('are readable by their owner only', async () => {
    const { folder } = await killed()
    chmodSync(folder, 0o755)
    await tierIn(folder).close()
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
  })
})

interface Damage {
  readonly how: 'cut' | 'flip a bit' | 'fill'
  /** Share of the file before it. */
  readonly at: number
}

function harm(path: string, { how, at }: Damage): void {
  const bytes = readFileSync(path)
  const offset = Math.floor(at * bytes.length)
  // Large numbers, where there are values.
  if (how === 'fill') bytes.fill(0x7f, offset, Math.min(offset + 512, bytes.length))
  if (how === 'flip a bit' && bytes.length > 0) bytes[offset]! ^= 0x40
  writeFileSync(path, how === 'cut' ? bytes.subarray(0, offset) : bytes)
}

describe('a conversation', () => {
  const next = someIds({ dims: { vocab: 90 } } as never, 20, 9)

  it('goes on after a restart without computing its first turn again', async () => {
    const folder = newFolder()
    const before = serve(folder)
    const { tokens } = await answer(before.serving, prompt())
    const turn = [...prompt(), ...tokens, ...next]
    await before.serving.close()
    const cold = serve(newFolder())
    const { tokens: expected } = await answer(cold.serving, turn)
    await cold.serving.close()
    for (let restart = 0; restart < 2; restart++) {
      const { serving, computed } = serve(folder)
      const { tokens: second } = await answer(serving, turn)
      expect(second).toEqual(expected)
      expect(computed.rows).toBeLessThan(40 + next.length + 3 * 16)
      await serving.close()
    }
  })

  it('leaves all of its complete pages, however short its answer is', async () => {
    const folder = newFolder()
    const { serving } = serve(folder)
    await answer(serving, prompt(), { maxTokens: 1 })
    await serving.close()
    const after = serve(folder)
    await answer(after.serving, [...prompt(), 1], { maxTokens: 1 })
    expect(after.computed.rows).toBe(101 - 96)
    await after.serving.close()
  })

  it('has pages of its own after another one has begun alike', async () => {
    const folder = newFolder()
    const begin = serve(folder)
    const { tokens } = await answer(begin.serving, prompt())
    await begin.serving.close()
    const { serving, computed } = serve(folder)
    const rowsOf = async (ids: readonly number[]) => {
      const before = computed.rows
      await answer(serving, ids, { maxTokens: 1 })
      return computed.rows - before
    }
    // It shares 48 ids with the first one, of which it takes a copy.
    expect(await rowsOf([...prompt().slice(0, 48), ...next])).toBe(next.length)
    expect(await rowsOf([...prompt(), ...tokens, ...next])).toBeLessThan(next.length + 2 * 16)
    await serving.close()
  })

  it('leaves nothing once its client is purged, while it is written or before', async () => {
    const folder = newFolder()
    const { serving } = serve(folder)
    await answer(serving, prompt())
    await answer(serving, prompt(), { owner: 'client app/user' })
    await answer(serving, prompt(), { owner: 'client apple' })
    const { stream } = await answer(serving, [7, ...prompt()], { stopAfter: 30 })
    expect(readdirSync(folder)).toHaveLength(4)
    serving.purge('client app')
    await stream.close()
    await expect.poll(() => readdirSync(folder)).toHaveLength(1)
    await serving.close()
    expect(readFileSync(join(folder, readdirSync(folder)[0]!)).toString('latin1')).toContain('client apple')
  })
})

describe('files that closed streams have left', () => {
  const rowValues = 64
  const page = (): { rows: number; values: Float32Array } => ({ rows: 16, values: new Float32Array(16 * rowValues).fill(1) })
  const keysOf = (owner: string, first: number) =>
    new PageKeys(
      { model: 'test', owner },
      Array.from({ length: 64 }, (_, at) => first + at),
    )

  async function leave(tier: SlowTier, owner: string, first: number, pages = 2): Promise<PageKeys> {
    const keys = keysOf(owner, first)
    const copy = tier.open(keys)
    for (let at = 0; at < pages; at++) await copy.save(at, page(), keys.at(at))
    await copy.leave()
    return keys
  }
  const pagesOf = (tier: SlowTier, keys: PageKeys) => {
    const taken = tier.take(keys, keys.first(4))
    void taken?.copy.leave()
    return taken?.pages
  }

  it('expire', async () => {
    const clock = fakeClock()
    const folder = newFolder()
    const tier = tierIn(folder, { clock })
    const keys = await leave(tier, 'a', 1)
    await clock.advance(keepMs - 1_000)
    expect(pagesOf(tier, keys)).toBe(2)
    await clock.advance(keepMs + 1_000)
    expect(pagesOf(tier, keys)).toBeUndefined()
    expect(tier.usage.usedBytes).toBe(0)
    await tier.close()
    expect(existsSync(folder)).toBe(false)
  })

  it('give way to pages of streams, the oldest first', async () => {
    const bytes = 512 + 2 * (24 + 16 * rowValues * 4)
    const tier = tierIn(newFolder(), { budgetBytes: 3 * bytes })
    const [a, b] = [await leave(tier, 'a', 1), await leave(tier, 'b', 1)]
    const keys = keysOf('c', 1)
    const copy = tier.open(keys)
    for (let at = 0; at < 4; at++) expect(await copy.save(at, page(), keys.at(at))).toBe(true)
    expect([pagesOf(tier, a), pagesOf(tier, b)]).toEqual([undefined, 2])
    expect(tier.usage.usedBytes).toBeLessThanOrEqual(3 * bytes)
    await copy.release()
    await tier.close()
  })

  it("of one client stay within the client's share, whatever its users are called", async () => {
    const bytes = 512 + 2 * (24 + 16 * rowValues * 4)
    const tier = tierIn(newFolder(), { clientBytes: 2 * bytes })
    const other = await leave(tier, 'b', 1)
    const own = [await leave(tier, 'a/1', 1), await leave(tier, 'a/2', 1), await leave(tier, 'a/3', 1)]
    expect([...own, other].map((keys) => pagesOf(tier, keys))).toEqual([undefined, 2, 2, 2])
    await tier.close()
  })

  it('are replaced by the file that goes on from them', async () => {
    const folder = newFolder()
    const tier = tierIn(folder)
    await leave(tier, 'a', 1, 2)
    const longer = await leave(tier, 'a', 1, 3)
    await leave(tier, 'a', 2, 1)
    expect(pagesOf(tier, longer)).toBe(3)
    await tier.close()
    expect(readdirSync(folder)).toHaveLength(2)
  })
})
