import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { type BuildEvent, type BuildOptions, buildBundle } from '../../../../core/model/bundle/build.ts'
import { readManifest, verifyHashes } from '../../../../core/model/bundle/bundle.ts'
import { drafterParts, formats, type Manifest } from '../../../../core/model/bundle/manifest.ts'
import { editHeader, type HeaderEntry, tinyCheckpoint } from '../../../support/checkpoint.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const shape = { split: 1, heads: 4, kvHeads: 2, headDim: 16 }
const tree = [[0], [1], [0, 0], [0, 1], [0, 0, 3]]
const drafters = { adapter: { ...shape, features: true }, adapterPaper: shape, medusa: { heads: 4, tree } }

const dir = shared(tempDir)

let checkpoint: string
let count = 0
beforeEach(async () => {
  checkpoint = await tinyCheckpoint(join(dir.path, `checkpoint-${count}`), {}, drafters)
})

async function build(options: Partial<BuildOptions> = {}) {
  const events: BuildEvent[] = []
  const out = join(dir.path, `bundle-${count++}`)
  const built = await buildBundle({
    checkpoint,
    out,
    format: 'fp32',
    split: 1,
    onEvent: (event) => events.push(event),
    ...options,
  })
  return { ...built, events }
}

async function refuses(code: string, message: RegExp, options: Partial<BuildOptions> = {}) {
  await expect(build({ drafters: drafterParts, ...options })).rejects.toMatchObject({
    name: 'BrimError',
    code,
    message: expect.stringMatching(message),
  })
  expect(existsSync(join(dir.path, `bundle-${count - 1}`))).toBe(false)
}

describe('a bundle', () => {
  it.each(formats)('in %s has the requested drafters, with the parts in the order of the computation', async (format) => {
    const { dir: out, manifest } = await build({ format, drafters: ['medusa', 'adapter-paper', 'adapter'] })
    const parts = ['input', 'adapter-paper', 'adapter', 'middle', 'output', 'medusa']
    expect(Object.keys(manifest.parts)).toEqual(parts)
    expect(await readManifest(out)).toEqual(manifest)
    await verifyHashes(out, manifest)
  })

  it('describes each drafter in its manifest', async () => {
    const { parts } = (await build({ drafters: drafterParts })).manifest
    expect(parts.adapter).toMatchObject({ layers: [0, 1], kvHeads: 2, headDim: 16, features: true })
    expect(parts['adapter-paper']).not.toHaveProperty('features')
    expect(parts.medusa).toMatchObject({ layers: [4, 4], heads: 4, tree })
    expect(Object.keys(parts.medusa?.graphs ?? {})).toEqual(['1'])
  })

  it('has the adapter by default, and no drafter if none is requested or the checkpoint has none', async () => {
    expect(Object.keys((await build()).manifest.parts)).toEqual(['input', 'adapter', 'middle', 'output'])
    expect(Object.keys((await build({ drafters: [] })).manifest.parts)).toEqual(['input', 'middle', 'output'])
    rmSync(join(checkpoint, 'adapter'), { recursive: true })
    const { manifest, events } = await build()
    expect(Object.keys(manifest.parts)).toEqual(['input', 'middle', 'output'])
    expect(events).not.toContainEqual({ kind: 'warning', message: expect.stringMatching(/adapter/) })
  })

  it('can have the adapter of another folder, with the other drafters of the checkpoint', async () => {
    const paper = join(checkpoint, 'adapter-paper')
    const { parts } = (await build({ drafters: ['adapter', 'medusa'], adapter: paper })).manifest
    expect(parts.adapter).not.toHaveProperty('features')
    expect(parts.medusa?.heads).toBe(4)
  })

  it.each([false, true])("stores the LLM's norm and head once, with Medusa heads too (tied: %s)", async (tied) => {
    checkpoint = await tinyCheckpoint(join(dir.path, `tied-${tied}`), { tie_word_embeddings: tied }, drafters)
    for (const format of ['fp32', 'int4'] as const) {
      const { manifest } = await build({ format, drafters: ['medusa'] })
      const { medusa, output } = manifest.parts
      const shared = medusa?.weights.filter(({ file }) => file !== 'medusa.weights')
      expect(shared).toEqual(output?.weights)
      const own = medusa?.weights.filter(({ file }) => file === 'medusa.weights').reduce((sum, { bytes }) => sum + bytes, 0)
      const matrix = format === 'fp32' ? 4 * 64 * 64 * 4 : (4 * 64 * 64) / 2 + (4 * 64 * 64 * 4) / 32
      expect(own).toBe(matrix + 4 * 64 * 4)
    }
  })

  it('has the same model id and number of parameters with and without drafters', async () => {
    const [none, all] = [await build({ drafters: [] }), await build({ drafters: drafterParts })]
    expect(all.manifest.modelId).toBe(none.manifest.modelId)
    expect(all.manifest.card.parameters).toBe(none.manifest.card.parameters)
  })

  it('reports progress up to the last byte of the last drafter', async () => {
    const { events } = await build({ drafters: drafterParts })
    const last = events.flatMap((event) => (event.kind === 'progress' ? [event] : [])).at(-1)
    expect(last).toMatchObject({ part: 'medusa', doneBytes: last?.totalBytes })
  })

  it('is rejected if its Medusa tree is invalid', async () => {
    const { dir: out } = await build({ drafters: ['medusa'] })
    const path = join(out, 'manifest.json')
    const original = readFileSync(path, 'utf8')
    const damages: [(medusa: NonNullable<Manifest['parts']['medusa']>) => void, RegExp][] = [
      [(medusa) => medusa.tree?.reverse(), /part medusa: tree\.0: the path \[0, 0, 3\] comes before its parent/],
      [(medusa) => delete medusa.tree, /part medusa: it has no heads or no tree/],
      [(medusa) => delete medusa.heads, /part medusa: it has no heads or no tree/],
      [(medusa) => Object.assign(medusa, { heads: 2 }), /is longer than the number of heads \(2\)/],
    ]
    for (const [damage, message] of damages) {
      const manifest = JSON.parse(original)
      damage(manifest.parts.medusa)
      writeFileSync(path, JSON.stringify(manifest))
      await expect(readManifest(out)).rejects.toMatchObject({
        code: 'BUNDLE_INVALID',
        message: expect.stringMatching(message),
      })
    }
  })
})

describe('a drafter', () => {
  const file = (name: string) => join(checkpoint, name)
  const edit = (path: string, change: (config: Record<string, unknown>) => void) => {
    const config = JSON.parse(readFileSync(file(path), 'utf8'))
    change(config)
    writeFileSync(file(path), JSON.stringify(config))
  }

  it.each(drafterParts)('that was requested must exist: %s', async (name) => {
    rmSync(file(name), { recursive: true })
    await refuses('CHECKPOINT_NOT_FOUND', new RegExp(`drafter ${name} is missing: .*${name} has no \\w+_config\\.json`))
  })

  it('needs a split model', async () => {
    await expect(buildBundle({ checkpoint, out: file('x'), format: 'fp32', drafters: ['medusa'] })).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(/medusa needs a split model/),
    })
  })

  it('given by its folder must exist; the hint names --adapter', async () => {
    await expect(
      buildBundle({ checkpoint, out: file('x'), format: 'fp32', split: 1, adapter: file('nowhere') }),
    ).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND', hint: expect.stringMatching(/--adapter/) })
  })

  it('given by its folder must be in the list of drafters', async () => {
    await refuses('USAGE', /--drafters does not include adapter/, { drafters: ['medusa'], adapter: file('adapter') })
  })

  it.each(['adapter', 'adapter-paper'])('that was requested must have been trained for this split: %s', async (name) => {
    edit(`${name}/adapter_config.json`, (config) => Object.assign(config, { split: 2 }))
    await refuses('SPLIT_OUT_OF_RANGE', new RegExp(`the ${name} in .* was trained for a split after layer 2, not 1`))
  })

  it.each([
    ['adapter/adapter_config.json', { kind: 'lora' }, /adapter_config\.json is not a valid configuration of adapter: kind: /],
    ['adapter/adapter_config.json', { features: 'yes' }, /valid configuration of adapter: features: /],
    ['adapter/adapter_config.json', { hidden_size: 128 }, /hidden_size is 128, the model's is 64/],
    ['adapter-paper/adapter_config.json', { features: true }, /adapter-paper.adapter_config\.json .*: features must be false/],
    [
      'medusa/medusa_config.json',
      { kind: 'hat-adapter' },
      /medusa_config\.json is not a valid configuration of Medusa heads: kind: /,
    ],
    ['medusa/medusa_config.json', { hidden_size: 32 }, /hidden_size is 32, the model's is 64/],
    ['medusa/medusa_config.json', { heads: 0 }, /heads: /],
    ['medusa/medusa_config.json', { tree: undefined }, /tree: /],
    ['medusa/medusa_config.json', { tree: [] }, /tree: /],
    ['medusa/medusa_config.json', { tree: [[0], []] }, /tree\.1: /],
    ['medusa/medusa_config.json', { tree: [[0], [-1]] }, /tree\.1\.0: /],
    ['medusa/medusa_config.json', { tree: [[0, 0], [0]] }, /tree\.0: the path \[0, 0\] comes before its parent/],
    ['medusa/medusa_config.json', { tree: [[0], [0]] }, /tree\.1: the path \[0\] is listed twice/],
    ['medusa/medusa_config.json', { tree: [[160]] }, /tree\.0: the path \[160\] has a rank beyond the vocabulary of 160/],
    ['medusa/medusa_config.json', { heads: 1 }, /tree\.2: the path \[0, 0\] is longer than the number of heads \(1\)/],
  ])('with an invalid configuration is rejected with file and field: %s %j', async (path, change, message) => {
    edit(path, (config) => Object.assign(config, change))
    await refuses('CHECKPOINT_INVALID', message)
  })

  it('is rejected if its configuration is not JSON or its weights are missing', async () => {
    rmSync(file('medusa/medusa.safetensors'))
    await refuses('CHECKPOINT_INVALID', /cannot open .*medusa\.safetensors/)
    mkdirSync(file('medusa/medusa.safetensors'))
    await refuses('CHECKPOINT_INVALID', /medusa\.safetensors is not a file/)
    writeFileSync(file('medusa/medusa_config.json'), '{"kind": ')
    await refuses('CHECKPOINT_INVALID', /medusa_config\.json is not a JSON object/)
  })

  it.each([
    ['adapter', 'adapter.safetensors', 'feature_proj.weight'],
    ['adapter-paper', 'adapter.safetensors', 'o_proj.weight'],
    ['medusa', 'medusa.safetensors', 'blocks.3.bias'],
  ])('must have all its tensors in the right shape, and no others: %s', async (name, weights, tensor) => {
    const change = (edit: (header: Record<string, HeaderEntry>) => void) => editHeader(file(name), edit, weights)
    let entry: HeaderEntry | undefined
    const place = `${name}/${weights}`
    change((header) => {
      entry = header[tensor]
      header[tensor] = { ...entry!, shape: [...entry!.shape, 1] }
    })
    await refuses('TENSOR_MISMATCH', new RegExp(`^${place}: the tensor ${tensor} is \\[64, .*1\\]`))
    change((header) => {
      delete header[tensor]
    })
    await refuses('TENSOR_MISSING', new RegExp(`the tensor ${tensor} is not in ${place}`))
    const extra: HeaderEntry = { dtype: 'F16', shape: [0], data_offsets: [0, 0] }
    change((header) => Object.assign(header, { [tensor]: entry, 'gate.weight': extra }))
    await refuses('TENSOR_UNEXPECTED', new RegExp(`^${place}: the tensor gate\\.weight is not part of this architecture`))
  })

  it('without the field features is a plain one, as in earlier versions', async () => {
    edit('adapter-paper/adapter_config.json', (config) => delete config.features)
    const { parts } = (await build({ drafters: ['adapter'], adapter: file('adapter-paper') })).manifest
    expect(parts.adapter).not.toHaveProperty('features')
  })
})
