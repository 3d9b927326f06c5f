import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type BuildOptions, buildBundle } from '../../../../core/model/bundle/build.ts'
import { readManifest, verifyHashes } from '../../../../core/model/bundle/bundle.ts'
import { draftOutput, formats, partsOfDrafter } from '../../../../core/model/bundle/manifest.ts'
import { rebuildPlan } from '../../../../core/model/bundle/rebuild-plan.ts'
import { VerifiedBundles } from '../../../../core/model/bundle/verified-bundles.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import { openVerifiedBundle } from '../../../../core/model/engine/open-bundle.ts'
import { openModel } from '../../../../core/model/engine/open-model.ts'
import { cpuProvider } from '../../../../core/model/engine/provider.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { testLoadedParts } from '../../../../core/model/engine/self-test.ts'
import { editHeader, type HeaderEntry, tinyCheckpoint } from '../../../support/checkpoint.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

/** Random heads for any LLM of width 64; `llama` has the embedding of the LLM in fixtures/drafters. */
const fixtures = fileURLToPath(new URL('../../../oracle/fixtures', import.meta.url))

const dir = shared(tempDir)
let checkpoint: string
beforeAll(async () => {
  checkpoint = await tinyCheckpoint(join(dir.path, 'checkpoint'), {})
})

let count = 0
let head: string
beforeEach(() => {
  head = join(dir.path, `head-${count}`)
  cpSync(join(fixtures, 'draft-heads', 'qwen'), head, { recursive: true })
})

async function build(options: Partial<BuildOptions> = {}) {
  const out = join(dir.path, `bundle-${count++}`)
  return buildBundle({ checkpoint, out, format: 'fp32', split: 1, draftHead: head, ...options })
}

async function refuses(code: string, message: RegExp, hint: RegExp, options: Partial<BuildOptions> = {}) {
  await expect(build(options)).rejects.toMatchObject({
    name: 'BrimError',
    code,
    message: expect.stringMatching(message),
    hint: expect.stringMatching(hint),
  })
  expect(existsSync(join(dir.path, `bundle-${count - 1}`))).toBe(false)
}

const weights = (edit: (header: Record<string, HeaderEntry>) => void) => editHeader(head, edit)
const configure = (change: object) => {
  const path = join(head, 'config.json')
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...change }))
}

describe('a bundle with a draft head', () => {
  it.each(formats)('in %s has it as its adapter, passes its self-test, and can be rebuilt for devices', async (format) => {
    const { dir: out, manifest } = await build({ format })
    const { parts } = manifest
    expect(Object.keys(parts)).toEqual(['input', 'middle', 'output', 'adapter', draftOutput])
    expect(parts.adapter).toMatchObject({
      layers: [0, 1],
      kvHeads: 4,
      headDim: 16,
      features: true,
      draftHead: { heads: 4, ffn: 96 },
    })
    expect(await readManifest(out)).toEqual(manifest)
    await verifyHashes(out, manifest)
    const own = partsOfDrafter(manifest, 'adapter')
    const model = await openVerifiedBundle(out, { parts: own, threads: 1, verified: new VerifiedBundles() })
    await model.release()
    for (const part of own) {
      const plan = await rebuildPlan(out, manifest, part, parts[part]!)
      expect(plan.weights).toEqual(parts[part]!.weights)
      expect(plan.spec.model.dims).toMatchObject(part === 'adapter' ? { heads: 4, kvHeads: 4, ffn: 96 } : manifest.dims)
    }
  })

  it('stores no part of the LLM again, and has the model id of the bundle without it', async () => {
    const { manifest } = await build()
    const without = (await build({ draftHead: undefined, drafters: [] })).manifest
    expect(manifest.modelId).toBe(without.modelId)
    expect(manifest.card.parameters).toBe(without.card.parameters)
    const { adapter, output, [draftOutput]: reader } = manifest.parts
    expect(reader?.weights).toEqual(output?.weights.filter(({ name }) => name.startsWith('head.')))
    const shared = adapter?.weights.filter(({ file }) => file !== 'adapter.weights').map(({ name, file }) => [name, file])
    expect(shared).toEqual([
      ['embedding.weight', 'input.weights'],
      ['norm', 'output.weights'],
    ])
  })

  it("shares the library's packed copy of the LLM's head: one set of weights for both parts", async () => {
    const { dir: out } = await build()
    const own = await openRuntime()
    const sets: unknown[] = []
    const runtime: Runtime = {
      info: own.info,
      device: own.device,
      tensor: (...args) => own.tensor(...args),
      mapFile: (path) => own.mapFile(path),
      session: (graph, options) => {
        sets.push(options.weights)
        return own.session(graph, options)
      },
      close: () => own.close(),
    }
    const model = await openModel(runtime, out, { parts: ['output', draftOutput], threads: 1 })
    await model.release()
    await own.close()
    expect(sets).toHaveLength(2)
    expect(sets[0]).toBe(sets[1])
  })

  it('takes the file of the weights in place of their folder', async () => {
    const { manifest } = await build({ draftHead: join(head, 'model.safetensors') })
    expect(manifest.parts.adapter?.draftHead).toBeDefined()
  })

  it('uses the embedding of its LLM, of which a head has a copy', async () => {
    const llm = join(fixtures, 'drafters')
    const { manifest } = await build({ checkpoint: llm, draftHead: join(fixtures, 'draft-heads', 'llama') })
    expect(manifest.parts.adapter?.weights.find(({ name }) => name === 'embedding.weight')?.file).toBe('input.weights')
  })
})

describe('a draft head on a device with a memory of its own', () => {
  it.each([
    ['fp32', 'fp32'],
    ['fp16', 'fp16'],
    ['int4', 'fp32'],
  ] as const)('in %s, computed in %s, gives the golden results', async (format, compute) => {
    const { dir: out, manifest } = await build({ format, accuracyLevel: 1 })
    const parts = partsOfDrafter(manifest, 'adapter')
    const runtime = await openRuntime({ provider: { ...cpuProvider, compute } })
    try {
      const model = await openModel(runtime, out, { parts, threads: 1 })
      try {
        await testLoadedParts(model, out, parts)
      } finally {
        await model.release()
      }
    } finally {
      await runtime.close()
    }
  })
})

describe('a draft head', () => {
  it('of another model is refused: by its embedding, and by its width', async () => {
    const other = join(fixtures, 'draft-heads', 'llama')
    await refuses(
      'CHECKPOINT_INVALID',
      /^llama.model\.safetensors: the tensor embed_tokens\.weight differs.*another model/,
      /trained for/,
      {
        draftHead: other,
      },
    )
    configure({ hidden_size: 128 })
    await refuses('CHECKPOINT_INVALID', /config\.json: hidden_size is 128, the model's is 64/, /trained for this model/)
  })

  it('in a pickle is refused with the way to convert it', async () => {
    const bin = join(head, 'pytorch_model.bin')
    renameSync(join(head, 'model.safetensors'), bin)
    for (const draftHead of [head, bin])
      await refuses(
        'CHECKPOINT_INVALID',
        /pytorch_model\.bin is a Python pickle/,
        /save_file\(torch\.load\("pytorch_model\.bin"/,
        {
          draftHead,
        },
      )
  })

  it('must have a configuration and weights', async () => {
    rmSync(join(head, 'config.json'))
    await refuses('CHECKPOINT_NOT_FOUND', /the draft head .* has no config\.json/, /config\.json and model\.safetensors/)
    mkdirSync(join(dir.path, 'empty'), { recursive: true })
    for (const draftHead of [join(dir.path, 'empty'), join(dir.path, 'nowhere')])
      await refuses('CHECKPOINT_NOT_FOUND', /the draft head .* has neither model\.safetensors/, /convert/, { draftHead })
  })

  it('of EAGLE-3 is refused with what is missing', async () => {
    weights((header) => {
      header['midlayer.hidden_norm.weight'] = { dtype: 'F16', shape: [0], data_offsets: [0, 0] }
    })
    await refuses('ARCHITECTURE_UNSUPPORTED', /EAGLE-3: it reads states of a low, a middle and a high layer/, /EAGLE-2 head/)
  })

  it('of an unknown layout is refused with the tensor that it lacks', async () => {
    weights((header) => {
      header['0.linear.weight'] = header['fc.weight']!
      delete header['fc.weight']
    })
    await refuses('CHECKPOINT_INVALID', /head-\d+.model\.safetensors has no tensor fc\.weight/, /--adapter/)
  })

  it('must have all its tensors in the right shape, and no others', async () => {
    let entry: HeaderEntry | undefined
    const name = 'layers.0.mlp.up_proj.weight'
    weights((header) => {
      entry = header[name]
      header[name] = { ...entry!, shape: [64, 96] }
    })
    await refuses(
      'TENSOR_MISMATCH',
      /^head-\d+.model\.safetensors: the tensor layers\.0\.mlp\.up_proj\.weight is \[64, 96\]/,
      /config\.json/,
    )
    weights((header) => {
      delete header[name]
    })
    await refuses(
      'TENSOR_MISSING',
      /the tensor layers\.0\.mlp\.up_proj\.weight is not in head-\d+.model\.safetensors/,
      /complete/,
    )
    const extra: HeaderEntry = { dtype: 'F16', shape: [0], data_offsets: [0, 0] }
    weights((header) => Object.assign(header, { [name]: entry, 'layers.0.input_layernorm.weight': extra }))
    await refuses('TENSOR_UNEXPECTED', /the tensor layers\.0\.input_layernorm\.weight is not part/, /config\.json/)
    weights((header) => {
      delete header['layers.0.input_layernorm.weight']
      header['layers.1.mlp.up_proj.weight'] = extra
    })
    await refuses('ARCHITECTURE_UNSUPPORTED', /config\.json: the draft head has 2 layers, not 1/, /one decoder layer/)
  })

  it.each([
    [
      { hidden_act: 'gelu' },
      'ARCHITECTURE_UNSUPPORTED',
      /the draft head .*config\.json: Brim does not support the activation gelu/,
    ],
    [{ num_key_value_heads: 3 }, 'CHECKPOINT_INVALID', /4 attention heads cannot share 3/],
    [{ intermediate_size: -1 }, 'CHECKPOINT_INVALID', /intermediate_size: /],
    [{ num_hidden_layers: 2 }, 'ARCHITECTURE_UNSUPPORTED', /has 2 layers, not 1/],
  ])('with an invalid configuration is refused: %j', async (change, code, message) => {
    configure(change)
    await refuses(code, message, /published|EAGLE|original/)
  })

  it('needs an MLP that int4 can divide into blocks', async () => {
    configure({ intermediate_size: 80 })
    await refuses('ARCHITECTURE_UNSUPPORTED', /int4 needs multiples of 32, but the MLP width of the draft head is 80/, /fp16/, {
      format: 'int4',
    })
  })

  it('with NaN is refused, with the file and the tensor', async () => {
    const path = join(head, 'model.safetensors')
    const bytes = readFileSync(path)
    bytes.writeUInt16LE(0x7e00, bytes.length - 2)
    writeFileSync(path, bytes)
    await refuses('VALUE_OUT_OF_RANGE', /^head-\d+.model\.safetensors: the tensor .* holds NaN/, /download it again/)
  })

  it('that is cut short is refused', async () => {
    truncateSync(join(head, 'model.safetensors'), 40_000)
    await refuses('SAFETENSORS_INVALID', /head-\d+.model\.safetensors/, /./)
  })

  it('needs a split model, and no other adapter beside it', async () => {
    await refuses('USAGE', /adapter needs a split model/, /--draft-head/, { split: undefined })
    await refuses('USAGE', /--adapter and --draft-head/, /omit one/, { adapter: head })
    await refuses('USAGE', /--draft-head is given, but --drafters does not include adapter/, /--drafters/, {
      drafters: ['medusa'],
    })
  })
})
