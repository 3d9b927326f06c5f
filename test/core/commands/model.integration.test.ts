import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tinyCheckpoint } from '../../support/checkpoint.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
let checkpoint: string
let bundle: string
beforeAll(async () => {
  checkpoint = await tinyCheckpoint(join(dir.path, 'tiny'))
  bundle = join(dir.path, 'bundle')
  await model(['build', checkpoint, '--split', '1', '--format', 'int4', '--accuracy-level', '1', '--out', bundle])
})

async function model(args: string[], options: Parameters<typeof captureIo>[0] = {}) {
  const { io, out, err } = captureIo(options)
  try {
    await brim(['model', ...args], io)
    return { out: out(), err: err(), error: undefined }
  } catch (error) {
    return { out: out(), err: err(), error }
  }
}

describe('brim model build', () => {
  it('prints what it built, warnings on stderr', async () => {
    const { out, err, error } = await model(['build', checkpoint, '--split', '2', '--out', join(dir.path, 'b1')])
    expect(error).toBeUndefined()
    expect(out).toMatch(/model +tiny \(llama, 0\.1 M parameters\)/)
    expect(out).toMatch(/format +fp16/)
    expect(out).toMatch(/split +after layer 2 of 4/)
    expect(out).toMatch(/middle +0\.\d MB, layers 2 to 3, 1\/2\/4\/8\/16 slots/)
    expect(err).toMatch(/^warning: the device gets 2 of 4 layers/m)
    expect(err).toMatch(/^built in \d/m)
  })

  it('prints one JSON document with --json', async () => {
    const out = join(dir.path, 'b2')
    const printed = await model(['build', checkpoint, '--format', 'fp32', '--name', 'mine', '--out', out, '--json'])
    expect(JSON.parse(printed.out)).toMatchObject({
      dir: out,
      schema: 3,
      card: { name: 'mine', family: 'llama' },
      format: { name: 'fp32' },
      split: null,
      modelId: expect.stringMatching(/^[0-9a-f]{64}$/),
      parts: [{ part: 'whole', layers: [0, 4], slots: [1, 2, 4, 8, 16] }],
      warnings: [expect.stringMatching(/tokenizer\.json/)],
      elapsedS: expect.any(Number),
    })
  })

  it('keeps an existing bundle unless forced', async () => {
    const again = ['build', checkpoint, '--split', '1', '--format', 'int4', '--accuracy-level', '1', '--out', bundle]
    expect((await model(again)).error).toMatchObject({ code: 'TARGET_UNWRITABLE' })
    expect((await model([...again, '--force'])).error).toBeUndefined()
  })

  it('stops at the signal and leaves no files', async () => {
    const reason = new BrimError('CANCELED', 'interrupted')
    const out = join(dir.path, 'b3')
    const { error } = await model(['build', checkpoint, '--out', out], { signal: AbortSignal.abort(reason) })
    expect(error).toBe(reason)
    expect(existsSync(out)).toBe(false)
  })

  it('rejects unknown formats and accuracy levels', async () => {
    const refusal = async (...args: string[]) => (await model(['build', checkpoint, ...args])).error
    expect(await refusal('--out', 'x', '--format', 'int3')).toMatchObject({
      message: expect.stringMatching(/^--format int3 must be one of fp32/),
    })
    expect(await refusal('--out', 'x', '--accuracy-level', '3')).toMatchObject({
      message: '--accuracy-level 3 must be one of 1, 4',
    })
    expect(await refusal()).toMatchObject({ message: '--out is missing' })
  })
})

describe('a bundle with drafters', () => {
  const shape = { split: 1, heads: 4, kvHeads: 2, headDim: 16 }
  let rich: string
  let drafting: string
  beforeAll(async () => {
    const medusa = { heads: 4, tree: [[0], [1], [0, 0]] }
    const drafters = { adapter: { ...shape, features: true }, adapterPaper: shape, medusa }
    rich = await tinyCheckpoint(join(dir.path, 'rich'), {}, drafters)
    drafting = join(dir.path, 'drafting')
  })

  it('contains the requested drafters, and passes verification', async () => {
    const asked = ['--split', '1', '--drafters', 'adapter, adapter-paper,medusa']
    const built = await model(['build', rich, ...asked, '--out', drafting])
    expect(built.error).toBeUndefined()
    const { out } = await model(['inspect', drafting])
    expect(out).toMatch(/^ {2}adapter {7}0\.\d MB, one attention block with features, 1\/2\/4\/8\/16 slots$/m)
    expect(out).toMatch(/^ {2}adapter-paper 0\.\d MB, one attention block, 1\/2\/4\/8\/16 slots$/m)
    expect(out).toMatch(/^ {2}medusa {8}0\.\d MB, 4 heads, a tree of 3, 1 slot$/m)
    const { parts } = JSON.parse((await model(['inspect', drafting, '--json'])).out)
    expect(parts.find(({ part }: { part: string }) => part === 'adapter')).toMatchObject({ features: true })
    expect(parts.at(-1)).toMatchObject({ part: 'medusa', heads: 4, tree: [[0], [1], [0, 0]] })
    const verified = await model(['verify', drafting, '--threads', '1'])
    expect(verified.error).toBeUndefined()
    for (const part of ['adapter      ', 'adapter-paper', 'medusa       '])
      expect(verified.out).toMatch(new RegExp(`^${part} pass  error`, 'm'))
  })

  it('contains the adapter by default, and is not built with unknown or missing drafters', async () => {
    const out = join(dir.path, 'default')
    const printed = JSON.parse((await model(['build', rich, '--split', '1', '--out', out, '--json'])).out)
    const names = printed.parts.map(({ part }: { part: string }) => part)
    expect(names).toEqual(['input', 'adapter', 'middle', 'output'])
    const refusal = async (folder: string, list: string) =>
      (await model(['build', folder, '--split', '1', '--out', join(dir.path, 'none'), '--drafters', list])).error
    expect(await refusal(rich, 'adapter,eagle')).toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(/--drafters adapter,eagle must be a list of adapter, adapter-paper, medusa/),
    })
    expect(await refusal(checkpoint, 'medusa')).toMatchObject({
      code: 'CHECKPOINT_NOT_FOUND',
      message: expect.stringMatching(/drafter medusa is missing: .*tiny.medusa has no medusa_config\.json/),
    })
  })
})

describe('brim model inspect', () => {
  it('shows the bundle as text and as JSON', async () => {
    const { out } = await model(['inspect', bundle])
    expect(out).toMatch(/format +int4, accuracy level 1, blocks of 32/)
    const printed = JSON.parse((await model(['inspect', bundle, '--json'])).out)
    expect(printed.parts.map(({ part }: { part: string }) => part)).toEqual(['input', 'middle', 'output'])
    expect(printed.bytes).toBeGreaterThan(printed.parts.reduce((sum: number, { bytes }: { bytes: number }) => sum + bytes, 0))
  })
})

describe('brim model verify', () => {
  it('passes an intact bundle', async () => {
    const { out, error } = await model(['verify', bundle, '--threads', '1'])
    expect(error).toBeUndefined()
    expect(out).toMatch(/^\d+ files match their hashes$/m)
    expect(out).toMatch(/^middle +pass {2}error \d\.\de-\d, allowed 1e-3$/m)
    const printed = JSON.parse((await model(['verify', bundle, '--threads', '1', '--json'])).out)
    expect(printed).toMatchObject({
      dir: bundle,
      passed: true,
      parts: [{ part: 'input', passed: true }, { part: 'middle' }, { part: 'output' }],
    })
  })

  it('names a damaged file', async () => {
    const damaged = join(dir.path, 'damaged')
    await model(['build', checkpoint, '--split', '1', '--out', damaged])
    writeFileSync(join(damaged, 'middle.2.onnx'), readFileSync(join(damaged, 'middle.2.onnx')).fill(0, 100, 101))
    const { error, out } = await model(['verify', damaged])
    expect(error).toMatchObject({
      code: 'BUNDLE_CORRUPT',
      message: expect.stringMatching(/middle\.2\.onnx was changed/),
    })
    expect(out).toBe('')
  })

  it('fails and prints the errors when a part has other results', async () => {
    const changed = join(dir.path, 'changed')
    await model(['build', checkpoint, '--split', '1', '--out', changed])
    // As if this machine's kernels gave other numbers: the vector expects another output, and its hash matches.
    const golden = JSON.parse(readFileSync(join(changed, 'output.golden.json'), 'utf8'))
    golden.expected.values = golden.expected.values.replace(/[A-Z]/g, 'B')
    const text = JSON.stringify(golden)
    writeFileSync(join(changed, 'output.golden.json'), text)
    const manifest = JSON.parse(readFileSync(join(changed, 'manifest.json'), 'utf8'))
    const record = manifest.files.find(({ path }: { path: string }) => path === 'output.golden.json')
    Object.assign(record, { bytes: text.length, sha256: createHash('sha256').update(text).digest('hex') })
    writeFileSync(join(changed, 'manifest.json'), JSON.stringify(manifest))
    const { out, error } = await model(['verify', changed, '--json'])
    expect(error).toMatchObject({
      code: 'BUNDLE_CORRUPT',
      message: expect.stringMatching(/^output of .* has other results on this machine/),
    })
    expect(JSON.parse(out)).toMatchObject({
      passed: false,
      parts: [{ passed: true }, { passed: true }, { part: 'output', passed: false }],
    })
  })
})
