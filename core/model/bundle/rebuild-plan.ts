import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { type Adapter, defaultInt4BlockSize, int4BlockSizes, type PartSpec, type WeightFormat } from './architecture.ts'
import { readJsonFile } from './checkpoint.ts'
import { draftLayer } from './draft-head-files.ts'
import { readArchitecture } from './families/index.ts'
import { formatOf, type Manifest, type PartManifest, type PartName, tokenizerFolder } from './manifest.ts'
import { type PartPlan, planParts } from './weight-plan.ts'

const configFile = 'config.json'

/**
 * The plan that a part was built from, over the weights of the bundle, for graphs that are not in it: what the manifest lacks
 * is in the bundle's config.json.
 * @throws BrimError BUNDLE_CORRUPT; BUNDLE_INVALID if the bundle does not tell enough, or lacks a weight
 */
export async function rebuildPlan(folder: string, manifest: Manifest, part: PartName, own: PartManifest): Promise<PartPlan> {
  const plan = planParts([await specOf(folder, manifest, part, own)])[0]!
  const names = new Set(plan.weights.map(({ name }) => name))
  const weights = own.weights.filter(({ name }) => names.delete(name))
  const [missing] = names
  if (missing !== undefined)
    throw new BrimError('BUNDLE_INVALID', `part ${part} of ${folder} has no weight ${missing}, which its config.json asks for`, {
      hint: 'build the bundle again',
    })
  return { ...plan, weights }
}

async function specOf(folder: string, manifest: Manifest, part: PartName, own: PartManifest): Promise<PartSpec> {
  const config = await readJsonFile(join(folder, tokenizerFolder), configFile)
  if (!config)
    throw new BrimError('BUNDLE_CORRUPT', `${join(folder, tokenizerFolder, configFile)} is missing`, {
      hint: 'copy the bundle again',
    })
  const format = weightFormat(formatOf(manifest, part))
  const { vocabularyFormat } = manifest
  const spec: PartSpec = {
    part,
    model: readArchitecture(config),
    format,
    ...(format.name === 'int4' && vocabularyFormat ? { vocabularyFormat: weightFormat(vocabularyFormat) } : {}),
    layers: own.layers,
  }
  if (own.draftHead) return draftHeadSpec(spec, own, own.draftHead)
  return part === 'adapter' || part === 'adapter-paper' ? { ...spec, adapter: adapterOf(folder, manifest, part, own) } : spec
}

/** As `adapterOf`. */
function draftHeadSpec(spec: PartSpec, own: PartManifest, head: NonNullable<PartManifest['draftHead']>): PartSpec {
  const { heads, ffn, epsilon, normEpsilon } = head
  const { kvHeads, headDim, weights } = own
  const has = (name: string) => weights.some((weight) => weight.name === name)
  const llm = { ...spec.model, epsilon: normEpsilon }
  const dims = { ...llm.dims, heads, kvHeads, headDim, ffn }
  const layer = draftLayer({ dims, epsilon, rope: { theta: 1, scaling: { kind: 'none' } }, qkvBias: has('layers.0.qkv.bias') })
  return { ...spec, model: layer, draftHead: { llm, hasBias: has('draft.input.bias') } }
}

function weightFormat({ name, accuracyLevel, blockSize: stored, zeroPoints = false }: Manifest['format']): WeightFormat {
  const blockSize = int4BlockSizes.find((size) => size === stored) ?? defaultInt4BlockSize
  return { name, accuracyLevel: accuracyLevel === 1 ? 1 : 4, blockSize, zeroPoints }
}

/** Its rotary frequencies are among its weights, so that the graph needs none. */
function adapterOf(folder: string, { dims, split }: Manifest, part: PartName, own: PartManifest): Adapter {
  if (own.adapter === undefined)
    throw new BrimError(
      'BUNDLE_INVALID',
      `part ${part} of ${folder} can be computed on the CPU only: an earlier version built it`,
      {
        hint: 'build the bundle again, or choose --provider cpu',
      },
    )
  const { kvHeads, headDim, features = false } = own
  const rope = { theta: 1, scaling: { kind: 'none' } } as const
  return { ...own.adapter, kvHeads, headDim, features, hidden: dims.hidden, split: split ?? 0, rope }
}
