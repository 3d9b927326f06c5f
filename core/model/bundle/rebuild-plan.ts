import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import type { Adapter, PartSpec } from './architecture.ts'
import { readJsonFile } from './checkpoint.ts'
import { readArchitecture } from './families/index.ts'
import { formatOf, type Manifest, type PartManifest, type PartName, tokenizerFolder } from './manifest.ts'
import { listParameters, type Matrix, type Vector } from './parameters.ts'
import { matrixNames, type PartPlan, planParts } from './weight-plan.ts'

const configFile = 'config.json'

/**
 * The specification that a part was built from, for graphs that are not in the bundle: what the manifest lacks is in the
 * bundle's config.json.
 * @throws BrimError BUNDLE_CORRUPT; BUNDLE_INVALID if the bundle does not tell enough
 */
export async function specOf(folder: string, manifest: Manifest, part: PartName, own: PartManifest): Promise<PartSpec> {
  const config = await readJsonFile(join(folder, tokenizerFolder), configFile)
  if (!config)
    throw new BrimError('BUNDLE_CORRUPT', `${join(folder, tokenizerFolder, configFile)} is missing`, {
      hint: 'copy the bundle again',
    })
  const { name, accuracyLevel } = formatOf(manifest, part)
  const spec: PartSpec = {
    part,
    model: readArchitecture(config),
    format: { name, accuracyLevel: accuracyLevel === 1 ? 1 : 4 },
    layers: own.layers,
  }
  return part === 'adapter' || part === 'adapter-paper' ? { ...spec, adapter: adapterOf(folder, manifest, part, own) } : spec
}

/** The plan of these layers over the weights of a part. */
export function planOver(part: PartManifest, spec: PartSpec): PartPlan {
  const plan = planParts([spec])[0]!
  const own = new Set(plan.weights.map(({ name }) => name))
  return { ...plan, weights: part.weights.filter(({ name }) => own.has(name)) }
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

/** @throws BrimError BUNDLE_INVALID if a weight of the plan is not among those of the bundle */
export function requireWeights(folder: string, { spec, parameters, weights }: PartPlan): void {
  const names = new Set(weights.map(({ name }) => name))
  const isThere = (parameter: Matrix | Vector) =>
    'columns' in parameter
      ? names.has(spec.format.name === 'int4' ? matrixNames(parameter).codes : matrixNames(parameter).weight)
      : names.has(parameter.name)
  const missing = listParameters(parameters).find((parameter) => !isThere(parameter))
  if (missing)
    throw new BrimError(
      'BUNDLE_INVALID',
      `part ${spec.part} of ${folder} has no weight ${missing.name}, which its config.json asks for`,
      {
        hint: 'build the bundle again',
      },
    )
}
