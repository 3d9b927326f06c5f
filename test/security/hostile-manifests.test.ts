import { createHash } from 'node:crypto'
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import type { Manifest, PartManifest } from '../../core/model/bundle/manifest.ts'
import { modelIdOf } from '../../core/model/bundle/model-id.ts'
import { InstallInput, JobSubmission, resultProblem } from '../../core/wire/protocol/jobs.ts'
import { tinyCheckpoint } from '../support/checkpoint.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'
import { tokenizerJson } from '../support/tokenizer-json.ts'

type Editable<T> = { -readonly [K in keyof T]: Editable<T[K]> }

const bundle = shared(() => tinyBundle({ adapter: true }))
let original: string
const path = () => join(bundle.path, 'manifest.json')
beforeAll(async () => {
  original = readFileSync(path(), 'utf8')
})
beforeEach(() => writeFileSync(path(), original))

/** Writes a changed manifest whose model id is right, as an attacker would. */
function edit(change: (manifest: Editable<Manifest>, input: Editable<PartManifest>) => void): void {
  const manifest = JSON.parse(original) as Editable<Manifest>
  change(manifest, manifest.parts.input!)
  writeFileSync(path(), JSON.stringify({ ...manifest, modelId: modelIdOf(manifest as Manifest) }))
}

const file = ({ files }: Manifest, name: string) => files.find((entry) => entry.path === name)!
const changes: [string, Parameters<typeof edit>[0], RegExp][] = [
  ['ten million layers in a part', (_, input) => (input.layers = [0, 1e7]), /part input: .* layers 0 to 10000000, not 0 to 1/],
  ['ten million layers in the model', ({ dims }) => (dims.layers = 1e7), /"dims\.layers": must be at most/],
  ['a split without a middle', (m) => (m.split = m.dims.layers), /leaves no middle/],
  ['a vocabulary of billions', ({ dims }) => (dims.vocab = 2 ** 31), /"dims\.vocab": must be at most/],
  ['heads that are too wide', ({ dims }) => Object.assign(dims, { heads: 1_024, kvHeads: 1_024, headDim: 1_024 }), /wider than/],
  ["another model's key-value heads", (_, input) => (input.kvHeads = 1_024), /do not belong to this model/],
  ['an adapter with endless heads', (m) => Object.assign(m.parts.adapter!, { kvHeads: 1_024, headDim: 1_024 }), /part adapter/],
  ['a whole part in a split model', (m, input) => (m.parts.whole = input), /part whole: the model is split/],
  ['a graph as large as a disk', (m) => (file(m, 'input.1.onnx').bytes = 2 ** 40), /graph "1" of \d+ bytes is too large/],
  ['a graph for a million slots', (_, input) => (input.graphs['1000000'] = 'input.1.onnx'), /unknown number of slots/],
  ['an endless golden vector', (m) => (file(m, 'input.golden.json').bytes = 2 ** 40), /golden vector of \d+ bytes/],
  [
    'an endless tokenizer',
    (m) => m.files.push({ path: 'tokenizer/a', bytes: 2 ** 40, sha256: '0'.repeat(64) }),
    /tokenizer have/,
  ],
  ['weights that end after their file should', (m) => (file(m, 'input.weights').bytes = 2 ** 40), /but its weights end at/],
  ['a size beyond every disk', (m) => (file(m, 'input.weights').bytes = 2 ** 52), /bytes": must be at most/],
  ['a file that is listed twice', ({ files }) => files.push(files[0]!), /listed twice/],
  ['a weight of another size', (_, { weights }) => (weights[0]!.bytes = 4), /rope\.cos .* does not have 4 bytes/],
  ['a weight beyond the dimensions', (_, { weights }) => (weights[0]!.dims = [2 ** 25, 2 ** 25]), /larger than the model's/],
  ['a rotary table that is too short', ({ dims }) => (dims.contextLimit *= 2), /does not cover \d+ positions/],
  ['two weights of one name', (_, { weights }) => weights.push(weights[0]!), /same name/],
  ['endless weights', (_, { weights }) => weights.push(...endless()), /weights are too many for 1 layer/],
  ['more weights than can be listed', (_, { weights }) => weights.push(...endless(40_000)), /weights": must have at most/],
  ['a name of a megabyte', ({ card }) => (card.name = 'x'.repeat(2 ** 20)), /"card\.name": must have at most/],
]

/** Weights that each name the same bytes again. */
const endless = (count = 1_000) =>
  Array.from({ length: count }, (_, at) => ({
    name: `w${at}`,
    type: 'float16' as const,
    dims: [2],
    file: 'input.weights',
    offset: 0,
    bytes: 4,
  }))

describe('a manifest', () => {
  it.each(changes)('with %s is refused before anything is reserved for it', async (_, change, words) => {
    edit(change)
    await expect(readManifest(bundle.path)).rejects.toMatchObject({
      code: 'BUNDLE_INVALID',
      message: expect.stringMatching(words),
    })
  })

  it('is refused by its size before it is read, and its errors are short', async () => {
    truncateSync(path(), 2 ** 33)
    await expect(readManifest(bundle.path)).rejects.toMatchObject({ message: expect.stringContaining('has more than') })
    const empties = Array.from({ length: 2 ** 20 }, () => ({}))
    writeFileSync(path(), JSON.stringify({ ...(JSON.parse(original) as object), files: empties }))
    const error = await readManifest(bundle.path).catch((thrown: Error) => thrown)
    expect((error as Error).message.length).toBeLessThan(1_000)
    expect((error as Error).cause).toBeUndefined()
  })
})

describe('the model id', () => {
  const dir = shared(tempDir)

  it.each([
    ['tokenizer', { 'tokenizer.json': JSON.stringify(tokenizerJson({ a: 0 }, 159)) }],
    ['chat template', { 'chat_template.jinja': '{{ messages[0].content }} and be rude' }],
    ['end of an answer', { 'generation_config.json': JSON.stringify({ eos_token_id: 7 }) }],
  ])('changes with the %s', async (name, files) => {
    const build = async (out: string) =>
      (await buildBundle({ checkpoint, out: join(dir.path, `${name}-${out}`), split: 1, format: 'fp32' })).manifest.modelId
    const checkpoint = await tinyCheckpoint(join(dir.path, name))
    const before = await build('before')
    for (const [file, content] of Object.entries(files)) writeFileSync(join(checkpoint, file), content)
    expect(await build('after')).not.toBe(before)
  })

  it('of a bundle with schema 1 stays valid, by the rule of its release', async () => {
    const { dims, split, format, parts, files, ...rest } = JSON.parse(original) as Manifest
    const decisive = (['input', 'middle', 'output'] as const).flatMap((name) => {
      const { graphs, weights } = parts[name]!
      return [...Object.values(graphs), ...weights.map((weight) => weight.file)]
    })
    const hashes = files.filter((entry) => decisive.includes(entry.path)).map((entry) => [entry.path, entry.sha256])
    const modelId = createHash('sha256')
      .update(JSON.stringify([dims, split, format, hashes.sort()]))
      .digest('hex')
    writeFileSync(path(), JSON.stringify({ ...rest, dims, split, format, parts, files, schema: 1, modelId }))
    expect(await readManifest(bundle.path)).toMatchObject({ schema: 1, modelId })
  })

  it('does not stay when its manifest claims the older schema', async () => {
    writeFileSync(path(), JSON.stringify({ ...(JSON.parse(original) as object), schema: 1 }))
    await expect(readManifest(bundle.path)).rejects.toMatchObject({ message: expect.stringContaining('model id does not match') })
  })
})

describe('a job that installs a bundle', () => {
  const modelId = 'ab'.repeat(32)
  const manifestSha256 = 'cd'.repeat(32)
  const submit = (input: object) => JobSubmission.safeParse({ kind: 'bundle.install', device: 'orin', input })

  it('must name the hash of the manifest, so that the server of the files cannot choose them', () => {
    expect(submit({ modelId, manifestSha256 }).success).toBe(true)
    expect(submit({ modelId }).error?.issues).toMatchObject([
      { path: ['input', 'manifestSha256'], message: expect.stringContaining('is required') },
    ])
    expect(InstallInput.safeParse({ modelId }).success).toBe(false)
  })

  it('of an earlier release may still end with its result', () => {
    expect(resultProblem('bundle.install', { modelId }, { modelId })).toBeUndefined()
    expect(resultProblem('bundle.install', { modelId }, { modelId: manifestSha256 })).toBe('it names another model')
  })
})
