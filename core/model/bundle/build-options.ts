import { BrimError } from '../../kit/base/errors.ts'
import { type Architecture, int4BlockSizes, type PartSpec, type WeightFormat } from './architecture.ts'
import { codeFormat } from './block-codes.ts'
import type { DrafterSpec } from './drafters.ts'
import { draftOutput, encoder, type Pooling } from './manifest.ts'

/** HAT puts less than this share of the layers on the device. */
const maxUsualDeviceShare = 0.1

/** Layers of a device's usual share; one at least. */
export const maxUsualSplit = (layers: number): number => Math.max(1, Math.floor(maxUsualDeviceShare * layers))

/** @throws BrimError SPLIT_OUT_OF_RANGE unless both sides have at least one layer */
export function checkSplit(split: number, layers: number): void {
  if (Number.isInteger(split) && split >= 1 && split < layers) return
  throw new BrimError('SPLIT_OUT_OF_RANGE', `cannot split after layer ${split}: the model has ${layers}`, {
    hint:
      layers > 1 ? `give --split 1 to ${layers - 1}, or omit it to build a whole model` : 'omit --split to build a whole model',
  })
}

/** @returns a warning if the device gets a larger share of the layers than in HAT */
export function splitWarning(split: number, layers: number): string | undefined {
  if (split / layers <= maxUsualDeviceShare) return undefined
  const percent = Math.round((100 * split) / layers)
  return `the device gets ${split} of ${layers} layers (${percent} %); in HAT it gets under ${100 * maxUsualDeviceShare} %`
}

/** @throws BrimError ARCHITECTURE_UNSUPPORTED if rows of int4 or int8 cannot be divided into blocks */
export function checkFormat(format: WeightFormat, { dims, delta }: Architecture, drafters: readonly DrafterSpec[]): void {
  if (!codeFormat(format)) return
  const widths: [string, number][] = [
    ['the hidden size', dims.hidden],
    ['the MLP width', dims.ffn],
    ['the width of all heads', dims.heads * dims.headDim],
  ]
  if (delta) widths.push(['the width of all value heads', delta.valueHeads * delta.valueDim])
  for (const drafter of drafters)
    if ('adapter' in drafter) {
      const { heads, headDim } = drafter.adapter
      widths.push([`the width of the heads of ${drafter.part}`, heads * headDim])
    } else if ('draftHead' in drafter) {
      const { heads, headDim, ffn } = drafter.draftHead.layer.dims
      widths.push(['the width of the heads of the draft head', heads * headDim], ['the MLP width of the draft head', ffn])
    }
  const odd = widths.find(([, width]) => width % format.blockSize !== 0)
  if (!odd) return
  const fitting = int4BlockSizes.findLast((size) => widths.every(([, width]) => width % size === 0))
  throw new BrimError(
    'ARCHITECTURE_UNSUPPORTED',
    `${format.name} needs multiples of ${format.blockSize}, but ${odd[0]} is ${odd[1]}`,
    {
      hint: fitting === undefined ? 'build with --format fp16' : `build with --block-size ${fitting}`,
    },
  )
}

/** Of the weights: of what devices compute, and of the rest. */
export interface BundleFormats {
  readonly format: WeightFormat
  readonly deviceFormat: WeightFormat
  /** Of embedding and head, in parts in int4. Undefined: int4, too. */
  readonly vocabularyFormat: WeightFormat | undefined
}

/** The parts of a bundle in the order of the computation: adapters before the middle, other drafters after the output. */
export function partSpecs(
  model: Architecture,
  { format, deviceFormat, vocabularyFormat }: BundleFormats,
  { split, pooling }: { readonly split?: number | undefined; readonly pooling?: Pooling | undefined },
  drafters: readonly DrafterSpec[],
): PartSpec[] {
  const { layers } = model.dims
  const withVocabulary = (own: WeightFormat) => (own.name === 'int4' && vocabularyFormat ? { vocabularyFormat } : {})
  const all = { model, format, ...withVocabulary(format), layers: [0, layers] as const }
  if (pooling) return [{ part: encoder, pooling, ...all }]
  if (split === undefined) return [{ part: 'whole', ...all }]
  const common = { model, format: deviceFormat, ...withVocabulary(deviceFormat) }
  const adapters = drafters.filter((drafter) => 'adapter' in drafter)
  const medusas = drafters.filter((drafter) => drafter.part === 'medusa')
  const heads = drafters.flatMap((drafter) => ('draftHead' in drafter ? [drafter.draftHead] : []))
  return [
    { part: 'input', layers: [0, split], ...common },
    ...adapters.map((drafter) => ({ ...drafter, layers: [0, 1] as const, ...common })),
    { part: 'middle', model, format, layers: [split, layers] },
    { part: 'output', layers: [layers, layers], ...common },
    ...heads.flatMap(({ layer, hasBias }): PartSpec[] => [
      { part: 'adapter', layers: [0, 1], ...common, model: layer, draftHead: { llm: model, hasBias } },
      { part: draftOutput, layers: [layers, layers], ...common },
    ]),
    ...medusas.map((drafter) => ({ ...drafter, layers: [layers, layers] as const, ...common })),
  ]
}
