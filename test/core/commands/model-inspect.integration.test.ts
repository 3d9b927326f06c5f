import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tinyCheckpoint } from '../../support/checkpoint.ts'
import { filesOf, repo, startHub } from '../../support/hub.ts'
import { fresh } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = fresh(tempDir)

async function run(args: string[], env: Record<string, string> = {}) {
  const { io, out, err } = captureIo({ env: { HOME: dir.path, ...env } })
  const error = await brim(['model', ...args], io).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return { out: out(), err: err(), error }
}

it('says what a checkpoint would need', async () => {
  const adapter = { split: 3, heads: 4, kvHeads: 4, headDim: 16 }
  const checkpoint = await tinyCheckpoint(join(dir.path, 'tiny'), {}, { adapter })
  const { out } = await run(['inspect', checkpoint])
  expect(out).toMatch(/model +llama, 0\.1 M parameters/)
  expect(out).toMatch(/int4 +device \d\.\d MB \+ \d\.\d MB, bridge .*split after layer 3: its adapter was trained/)
  expect(out).toMatch(/drafts +an adapter for a split after layer 3/)
  const { roundTrip, context, formats } = JSON.parse((await run(['inspect', checkpoint, '--sessions', '2', '--json'])).out)
  expect(roundTrip).toEqual({ rows: 5, fp16Bytes: 2 * (40 + 5 * 128), int8Bytes: 2 * (40 + 5 * 68) })
  expect(context).toBe(256)
  expect(formats.map(({ format }: { format: string }) => format).sort()).toEqual(['fp16', 'fp32', 'int4', 'int8'])
})

it('says what a device would draft from', async () => {
  const checkpoint = fixtureDir('llama')
  const small = join(dir.path, 'small')
  const other = join(dir.path, 'other')
  const draftsOf = async (...args: string[]) => /drafts +(.*)/.exec((await run(['inspect', checkpoint, ...args])).out)?.[1]
  expect(await draftsOf()).toBe('prompt lookup; the checkpoint has no adapter')
  await run(['build', checkpoint, '--out', small])
  await run(['build', fixtureDir('qwen2'), '--out', other])
  expect(await draftsOf('--slm', small)).toBe('the small model small, prompt lookup; the checkpoint has no adapter')
  expect(await draftsOf('--slm', other)).toBe('prompt lookup; the checkpoint has no adapter')
  const head = join(dirname(checkpoint), 'draft-heads', 'qwen')
  const all = ['--draft-head', head, '--slm', small]
  expect(await draftsOf(...all)).toBe('the draft head, for any split, the small model small, prompt lookup')
  const { draft } = JSON.parse((await run(['inspect', checkpoint, ...all, '--json'])).out)
  expect(draft.sources).toEqual([{ kind: 'adapter' }, { kind: 'slm', model: 'small' }, { kind: 'lookup' }])
})

it('reads configuration and header of a model at the hub, and agrees with the downloaded one', async () => {
  const checkpoint = await tinyCheckpoint(join(dir.path, 'made'), { vocab_size: 4_000 })
  const files = filesOf(checkpoint)
  const whole = files.get('model.safetensors')!.length
  await using hub = await startHub(files)
  const { out, error } = await run(['inspect', repo, '--json'], { HF_ENDPOINT: hub.url })
  expect(error).toBeUndefined()
  const ranges = hub.requests.filter(({ host }) => host === 'cdn').map(({ range }) => range)
  expect(ranges).toEqual(['bytes=0-65535'])
  expect(whole).toBeGreaterThan(1_000_000)
  const { model, ...remote } = JSON.parse(out)
  const { model: _, ...local } = JSON.parse((await run(['inspect', checkpoint, '--json'])).out)
  expect(model).toBe(`${repo}@${hub.commit}`)
  expect(remote).toEqual(local)
  expect(readdirSync(dir.path)).not.toContain('.cache')
})

it('names what a hub sends in place of a header', async () => {
  const files = filesOf(await tinyCheckpoint(join(dir.path, 'made')))
  files.set('model.safetensors', Buffer.alloc(200, 255))
  await using hub = await startHub(files)
  expect((await run(['inspect', repo], { HF_ENDPOINT: hub.url })).error).toMatchObject({ code: 'SAFETENSORS_INVALID' })
})

it('builds at the split that fits', async () => {
  const checkpoint = await tinyCheckpoint(join(dir.path, 'tiny'), { num_hidden_layers: 30 })
  const build = (...args: string[]) =>
    run(['build', checkpoint, '--format', 'fp32', '--split', 'auto', '--out', join(dir.path, 'b'), ...args])
  const { err, out } = await build('--json')
  expect(JSON.parse(out).split).toBe(3)
  expect(err).toMatch(/split after layer 3: the deepest, up to a tenth/)
  const { formats } = JSON.parse((await run(['inspect', checkpoint, '--json'])).out)
  const { device } = formats.find(({ format }: { format: string }) => format === 'fp32')
  const size = (bytes: number) => `${bytes / 1_000}K`
  const exact = device.weightBytes + device.kvBytes
  expect(JSON.parse((await build('--force', '--device-memory', size(exact), '--json')).out).split).toBe(3)
  expect(JSON.parse((await build('--force', '--device-memory', size(exact - 1), '--json')).out).split).toBe(2)
  expect((await build('--force', '--device-memory', '10K')).error).toMatchObject({ code: 'SPLIT_OUT_OF_RANGE' })
  expect((await run(['build', checkpoint, '--out', 'x', '--device-memory', '1G'])).error).toMatchObject({ code: 'USAGE' })
  expect(statSync(join(dir.path, 'b')).isDirectory()).toBe(true)
})

it('still says what is wrong with a folder that is neither', async () => {
  mkdirSync(join(dir.path, 'empty'))
  expect((await run(['inspect', join(dir.path, 'empty')])).error).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
  expect((await run(['inspect', join(dir.path, 'none')])).error).toMatchObject({ code: 'BUNDLE_INVALID' })
})
