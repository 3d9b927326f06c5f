import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { openSlowTier } from '../../../cloud-bridge/serving/open-slow-tier.ts'
import type { Page, SlowTier } from '../../../cloud-bridge/serving/slow-tier.ts'
import { fileTier } from '../../../cloud-bridge/serving/slow-tier-file.ts'
import { memoryTier } from '../../../cloud-bridge/serving/slow-tier-memory.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const rowValues = 96
const page = (seed: number, rows = 16): Page => ({
  rows,
  values: Float32Array.from({ length: rows * rowValues }, (_, i) => Math.sin(seed * 1_000 + i)),
})
const clonedPage = ({ rows, values }: Page): Page => ({ rows, values: values.slice() })
const pageBytes = 16 * rowValues * 4

const folders: TempDir[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) folder[Symbol.dispose]()
})

function fileTierIn(folder: string, budgetBytes = 2 ** 20, clock = systemClock): SlowTier {
  return fileTier({ folder, budgetBytes, clock, logger: silentLogger(), keepMs: 0, clientBytes: 0, models: [] })
}

function newFolder(): string {
  const folder = tempDir()
  folders.push(folder)
  return join(folder.path, 'kv')
}

describe.each([
  ['memory', (budgetBytes: number) => memoryTier(budgetBytes)],
  ['file', (budgetBytes: number) => fileTierIn(newFolder(), budgetBytes)],
])('a slow tier in %s', (_, openTier) => {
  it('returns pages bit for bit, whole or in part, in any order and after replacement', async () => {
    const tier = openTier(2 ** 20)
    const [one, two] = [tier.open(), tier.open()]
    const saved = [page(1), page(2), page(3, 5)]
    for (const at of [1, 0, 2]) expect(await one.save(at, clonedPage(saved[at]!))).toBe(true)
    await two.save(0, page(9))
    await one.save(1, clonedPage(page(4, 7)))
    expect(await Promise.all([0, 1, 2].map((at) => one.load(at)))).toEqual([saved[0], page(4, 7), saved[2]])
    expect(await two.load(0)).toEqual(page(9))
    expect([await one.load(3), await two.load(1)]).toEqual([undefined, undefined])
    await tier.close()
  })

  it('refuses what exceeds its budget, and frees what is released', async () => {
    const tier = openTier(3 * pageBytes)
    const [one, two] = [tier.open(), tier.open()]
    expect(await one.save(0, page(1))).toBe(true)
    expect(await one.save(1, page(2))).toBe(true)
    expect(tier.usage.usedBytes).toBe(one.bytes)
    expect(await two.save(0, page(3, 16))).toBe(one.bytes === 2 * pageBytes)
    expect(await two.save(1, page(4))).toBe(false)
    await one.release()
    expect(tier.usage.usedBytes).toBe(two.bytes)
    expect(await two.save(1, page(5))).toBe(true)
    expect(await two.load(1)).toEqual(page(5))
    await two.release()
    expect(tier.usage).toMatchObject({ usedBytes: 0, budgetBytes: 3 * pageBytes })
    await tier.close()
  })
})

it('zeroes the pages in memory that are freed', async () => {
  const tier = memoryTier(2 ** 20)
  const copy = tier.open()
  const { rows, values } = page(1)
  await copy.save(0, { rows, values })
  await copy.release()
  expect(values.every((value) => value === 0)).toBe(true)
})

describe('a slow tier in files', () => {
  /** A tier with three saved pages, its only file, and a second stream. */
  async function threePages() {
    const folder = newFolder()
    const tier = fileTierIn(folder)
    const copy = tier.open()
    for (const at of [0, 1, 2]) await copy.save(at, page(at))
    const [name] = readdirSync(folder)
    return { tier, copy, folder, file: join(folder, name!) }
  }

  it('loses only the page in which a byte has changed', async () => {
    const { tier, copy, file } = await threePages()
    const bytes = readFileSync(file)
    bytes[pageBytes + 200]! ^= 1
    writeFileSync(file, bytes)
    expect([await copy.load(0), await copy.load(1), await copy.load(2)]).toEqual([page(0), undefined, page(2)])
    await tier.close()
  })

  it('loses the pages that a truncated file lacks', async () => {
    const { tier, copy, file } = await threePages()
    truncateSync(file, 2 * pageBytes - 10)
    expect([await copy.load(0), await copy.load(1), await copy.load(2)]).toEqual([page(0), undefined, undefined])
    await tier.close()
  })

  it('takes neither a page for another one nor the bytes of another file', async () => {
    const { tier, copy, folder, file } = await threePages()
    const bytes = readFileSync(file)
    const stride = bytes.length / 3
    writeFileSync(
      file,
      Buffer.concat([bytes.subarray(stride, 2 * stride), bytes.subarray(0, stride), bytes.subarray(2 * stride)]),
    )
    expect([await copy.load(0), await copy.load(1), await copy.load(2)]).toEqual([undefined, undefined, page(2)])
    const other = tier.open()
    await other.save(0, page(7))
    const otherFile = readdirSync(folder).find((name) => !file.endsWith(name))!
    writeFileSync(join(folder, otherFile), bytes.subarray(0, stride))
    expect(await other.load(0)).toBeUndefined()
    await tier.close()
  })

  it('deletes its files, and those of a process that was killed', async () => {
    const { tier, copy, folder, file } = await threePages()
    expect(readdirSync(folder)).toHaveLength(1)
    await copy.release()
    expect(readdirSync(folder)).toEqual([])
    writeFileSync(file, 'left behind')
    const next = fileTierIn(folder)
    expect(readdirSync(folder)).toEqual([])
    await next.close()
    await tier.close()
  })

  it('refuses pages for a second after a write has failed, then tries again', async () => {
    const folder = newFolder()
    const clock = fakeClock()
    const tier = fileTierIn(folder, 2 ** 20, clock)
    execFileSync('rm', ['-r', folder])
    const copy = tier.open()
    expect(await copy.save(0, page(0))).toBe(false)
    execFileSync('mkdir', [folder])
    expect(await copy.save(0, page(0))).toBe(false)
    await clock.advance(1_000)
    expect(await copy.save(0, page(0))).toBe(true)
    expect(await copy.load(0)).toEqual(page(0))
    await tier.close()
  })

  it.skipIf(process.platform !== 'linux')('loses pages, without failing, on a device that is full or broken', async () => {
    // Real ENOSPC and EIO: /dev/full takes no byte, and the process has no memory at address 0.
    for (const device of ['/dev/full', '/proc/self/mem']) {
      const folder = newFolder()
      const tier = fileTierIn(folder)
      symlinkSync(device, join(folder, '1.kv'))
      const broken = tier.open()
      expect(await broken.save(0, page(0))).toBe(false)
      expect(await broken.load(0)).toBeUndefined()
      await broken.release()
      await tier.close()
    }
  })
})

it('a slow tier of two models stays open until both have closed it', async () => {
  const folder = newFolder()
  const settings = { kvSlow: 'file', kvSlowBudgetBytes: 2 ** 20, stateDir: dirname(folder), prefixKeepS: 0 } as const
  const limits = { deviceKvPercent: 50 }
  const tier = openSlowTier({ ...settings, limits }, { clock: systemClock, logger: silentLogger() }, ['a', 'b'])!
  const copy = tier.open()
  expect(await copy.save(0, page(1))).toBe(true)
  await tier.close()
  expect(await copy.load(0)).toEqual(page(1))
  await tier.close()
  expect(existsSync(folder)).toBe(false)
})
