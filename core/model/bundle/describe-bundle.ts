import { nowIso } from '../../kit/base/clock.ts'
import { version } from '../../kit/base/version.ts'
import { type Architecture, attentionOf, layersOf, recurrentOf, type WeightFormat, windowOf } from './architecture.ts'
import { codeFormat } from './block-codes.ts'
import type { BundleFormats } from './build-options.ts'
import type { FileRecord } from './bundle-draft.ts'
import type { Checkpoint } from './checkpoint.ts'
import { graphKey, isDrafter, type Manifest, manifestSchema, type PartManifest, type SlotCount } from './manifest.ts'
import { modelIdOf } from './model-id.ts'
import { ownParameters, type PartPlan } from './weight-plan.ts'

interface BundleFacts {
  readonly name: string | undefined
  readonly checkpoint: Checkpoint
  readonly formats: BundleFormats
  readonly split: number | undefined
  readonly plans: readonly PartPlan[]
  readonly files: readonly FileRecord[]
}

/** The manifest of a bundle after all its files are written. */
export function describeBundle({ name, checkpoint, formats, split, plans, files }: BundleFacts): Manifest {
  const { architecture, tokens } = checkpoint
  const { format, deviceFormat, vocabularyFormat } = formats
  const described: Omit<Manifest, 'card' | 'modelId'> = {
    schema: manifestSchema,
    tokens,
    dims: architecture.dims,
    split: split ?? null,
    format: describeFormat(format),
    ...(deviceFormat.name === format.name ? {} : { deviceFormat: describeFormat(deviceFormat) }),
    ...(vocabularyFormat ? { vocabularyFormat: describeFormat(vocabularyFormat) } : {}),
    parts: Object.fromEntries(plans.map((plan) => [plan.spec.part, describePart(plan, files)])),
    files: [...files],
  }
  const { schema, ...rest } = described
  return {
    schema,
    card: {
      name: name ?? checkpoint.name,
      family: architecture.family,
      parameters: countParameters(plans),
      createdAt: nowIso(),
      createdBy: `brim ${version}`,
    },
    modelId: modelIdOf(described),
    ...rest,
  }
}

function describeFormat(format: WeightFormat): Manifest['format'] {
  const { name, blockSize, accuracyLevel } = format
  const coded = codeFormat(format)
  if (!coded) return { name }
  return { name, blockSize, accuracyLevel, ...(coded.zeroPoints ? { zeroPoints: true } : {}) }
}

export function graphFile(plan: PartPlan, slots: SlotCount, branching: boolean): string {
  return `${plan.spec.part}.${graphKey(slots, branching)}.onnx`
}

export function goldenFile(plan: PartPlan): string {
  return `${plan.spec.part}.golden.json`
}

function describePart(plan: PartPlan, files: readonly FileRecord[]): PartManifest {
  const { spec, weights } = plan
  const { kvHeads, headDim } = attentionOf(spec)
  const recurrent = recurrentOf(spec)
  const window = windowOf(spec)
  const graphs = files.map(({ path }) => [path, path.match(/^([a-z-]+)\.(\d+(?:-tree)?)\.onnx$/)] as const)
  return {
    layers: [...spec.layers],
    kvHeads,
    headDim,
    ...(recurrent ? { recurrent } : {}),
    graphs: Object.fromEntries(graphs.filter(([, match]) => match?.[1] === spec.part).map(([path, match]) => [match?.[2], path])),
    weights: [...weights],
    golden: goldenFile(plan),
    ...(window === undefined ? {} : { window }),
    ...(window !== undefined && layersOf(spec).every((layer) => layer.window !== undefined) ? { windowOnly: true } : {}),
    ...(spec.adapter?.features ? { features: true } : {}),
    ...(spec.adapter ? { adapter: { heads: spec.adapter.heads, epsilon: spec.adapter.epsilon } } : {}),
    ...(spec.draftHead ? { features: true, draftHead: describeDraftHead(spec.model, spec.draftHead.llm) } : {}),
    ...(spec.pooling ? { pooling: spec.pooling } : {}),
    ...(spec.medusa ? { heads: spec.medusa.heads, tree: spec.medusa.tree.map((path) => [...path]) } : {}),
  }
}

const describeDraftHead = ({ dims: { heads, ffn }, epsilon }: Architecture, llm: Architecture) => ({
  heads,
  ffn,
  epsilon,
  normEpsilon: llm.epsilon,
})

/** Number of the LLM's weights: a tied head counts once, drafters are excluded. */
export function countParameters(plans: readonly PartPlan[]): number {
  const all = plans.filter(({ spec }) => !isDrafter(spec.part)).flatMap(ownParameters)
  return all.reduce((sum, parameter) => sum + ('columns' in parameter ? parameter.rows * parameter.columns : parameter.length), 0)
}
