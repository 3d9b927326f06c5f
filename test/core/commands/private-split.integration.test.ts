import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { fresh } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = fresh(tempDir)
let prompts: string
beforeEach(() => {
  prompts = join(dir.path, 'prompts.jsonl')
  writeFileSync(prompts, JSON.stringify({ prompt: 'Where is the river?' }))
})

async function build(...words: string[]) {
  const { io, out, err } = captureIo()
  const all = ['model', 'build', fixtureDir('llama'), '--format', 'fp32', '--out', join(dir.path, 'bundle'), ...words]
  const error = await brim(all, io).then(
    () => undefined,
    (cause: unknown) => cause,
  )
  return { error, out: out(), err: err() }
}
const audited = (bound: string, ...words: string[]) =>
  build('--split', 'auto', '--privacy', bound, '--prompts', prompts, ...words)

it('says that no depth hides public weights, with a table of all, and builds nothing', { timeout: 60_000 }, async () => {
  const { error, out } = await audited('0.5')
  expect(error).toMatchObject({
    code: 'PRIVACY_UNREACHABLE',
    message: 'no split keeps what is recovered at or below 50 %: the least is 100 %, after layer 1',
    hint: expect.stringContaining('mode local'),
  })
  expect(out).toMatch(/^SPLIT +TOKENS FOUND +BY +DEVICE MEMORY +DEVICE TIME$/m)
  for (const split of [1, 2, 3])
    expect(out).toMatch(new RegExp(`^${split} +up to 100 % +search, prompt +[\\d.]+ [KM]B +\\d+ ms$`, 'm'))
  expect(readdirSync(dir.path)).toEqual(['prompts.jsonl'])
})

it('builds the shallowest split that is within the bound, and reports what it measured', { timeout: 60_000 }, async () => {
  const { out } = await audited('1', '--json')
  const { split, privacy } = JSON.parse(out) as { split: number; privacy: { bound: number; depths: object[] } }
  expect(split).toBe(1)
  expect(privacy).toMatchObject({
    bound: 1,
    depths: [
      { split: 1, recovery: { attack: 'search', share: 1 }, deviceBytes: expect.any(Number), deviceS: expect.any(Number) },
    ],
  })
  expect(readdirSync(dir.path).sort()).toEqual(['bundle', 'prompts.jsonl'])
  // Before anything is measured.
  expect((await audited('0')).error).toMatchObject({ code: 'TARGET_UNWRITABLE' })
})

it('tries no split for which the device has no memory', { timeout: 60_000 }, async () => {
  const all = JSON.parse((await audited('0', '--json')).out) as { privacy: { depths: { split: number; deviceBytes: number }[] } }
  const [one, two] = all.privacy.depths
  const some = JSON.parse((await audited('0', '--json', '--device-memory', `${two!.deviceBytes / 1_000}K`)).out) as typeof all
  expect(some.privacy.depths.map(({ split }) => split)).toEqual([1, 2])
  expect((await audited('0', '--device-memory', `${(one!.deviceBytes - 1) / 1_000}K`)).error).toMatchObject({
    code: 'SPLIT_OUT_OF_RANGE',
  })
})

it('needs all of its options', async () => {
  expect((await build('--split', '1', '--privacy', '0.5', '--prompts', prompts)).error).toMatchObject({ code: 'USAGE' })
  expect((await build('--split', 'auto', '--privacy', '0.5')).error).toMatchObject({ code: 'USAGE' })
  expect((await build('--split', 'auto', '--prompts', prompts)).error).toMatchObject({ code: 'USAGE' })
})
