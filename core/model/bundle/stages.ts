import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import type { PartSpec } from './architecture.ts'
import { readJsonFile } from './checkpoint.ts'
import { readArchitecture } from './families/index.ts'
import { graphKey, type Manifest, type PartManifest, type SlotCount, tokenizerFolder } from './manifest.ts'
import { buildPartGraph } from './part-graph.ts'
import { type PartPlan, planParts } from './weight-plan.ts'

/** Consecutive layers of a bundle's middle as a separate part. */
interface Stage {
  readonly manifest: PartManifest
  graph(slots: SlotCount, branching: boolean): Uint8Array
}

const configFile = 'config.json'

/**
 * Splits the middle of a bundle into `count` stages whose layer counts differ by at most one. Their graphs are not in the
 * bundle: they are built here, over the weights of the bundle.
 * @throws BrimError CONFIG_INVALID for more stages than layers, BUNDLE_CORRUPT, BUNDLE_INVALID if this version of Brim
 * writes other graphs than the bundle has
 */
export async function splitIntoStages(folder: string, manifest: Manifest, middle: PartManifest, count: number): Promise<Stage[]> {
  const [first, end] = middle.layers
  const layers = end - first
  if (!(Number.isInteger(count) && count >= 1 && count <= layers))
    throw new BrimError('CONFIG_INVALID', `a pipeline of ${count} stages is not possible: the middle has ${layers} layers`, {
      hint: `choose 1 to ${layers} stages: each needs at least one layer`,
    })
  const whole = await readMiddle(folder, manifest, middle)
  requireSameGraphs(manifest, middle, planLayers(middle, whole))
  const bounds = Array.from({ length: count + 1 }, (_, stage) => first + Math.ceil((stage * layers) / count))
  return bounds.slice(1).map((to, stage) => {
    const from = bounds[stage]!
    const plan = planLayers(middle, { ...whole, layers: [from, to], continues: stage > 0 })
    return {
      manifest: { ...middle, layers: [from, to], weights: [...plan.weights] },
      graph: (slots, branching) => buildPartGraph(plan, slots, branching),
    }
  })
}

/** The specification that the middle was built from: what the manifest lacks is in the bundle's config.json. */
async function readMiddle(folder: string, { format }: Manifest, { layers }: PartManifest): Promise<PartSpec> {
  const config = await readJsonFile(join(folder, tokenizerFolder), configFile)
  if (!config)
    throw new BrimError('BUNDLE_CORRUPT', `${join(folder, tokenizerFolder, configFile)} is missing`, {
      hint: 'copy the bundle again',
    })
  const { name, accuracyLevel } = format
  return {
    part: 'middle',
    model: readArchitecture(config),
    format: { name, accuracyLevel: accuracyLevel === 1 ? 1 : 4 },
    layers,
  }
}

/** The plan of these layers over the bundle's weights. */
function planLayers(middle: PartManifest, spec: PartSpec): PartPlan {
  const plan = planParts([spec])[0]!
  const own = new Set(plan.weights.map(({ name }) => name))
  return { ...plan, weights: middle.weights.filter(({ name }) => own.has(name)) }
}

/** Stages are exact only if this version writes the middle's graphs byte for byte as the bundle has them. */
function requireSameGraphs({ card, files }: Manifest, middle: PartManifest, whole: PartPlan): void {
  const isSame = (branching: boolean) => {
    const graph = files.find(({ path }) => path === middle.graphs[graphKey(1, branching)])
    return (
      graph?.sha256 ===
      createHash('sha256')
        .update(buildPartGraph(whole, 1, branching))
        .digest('hex')
    )
  }
  if (isSame(false) && isSame(true)) return
  throw new BrimError(
    'BUNDLE_INVALID',
    `the middle of ${card.name} cannot be split into stages: ${card.createdBy} wrote other graphs than this version`,
    { hint: 'build the bundle again with this version, or run the bridge without --pipeline' },
  )
}
