import { BrimError } from '../base/errors.ts'
import { type Architecture, int4BlockSize, type PartSpec, type WeightFormat } from './architecture.ts'
import type { DrafterSpec } from './drafters.ts'

/** HAT keeps less than this share of the layers on the device. */
const usualDeviceShare = 0.1

/** @throws BrimError SPLIT_OUT_OF_RANGE unless both sides get a layer */
export function checkSplit(split: number, layers: number): void {
  if (Number.isInteger(split) && split >= 1 && split < layers) return
  throw new BrimError('SPLIT_OUT_OF_RANGE', `cannot split after layer ${split}: the model has ${layers}`, {
    hint:
      layers > 1
        ? `give a split from 1 to ${layers - 1}, or none for a whole model`
        : 'build it without --split, as a whole model',
  })
}

/** @returns a warning where the device gets more layers than HAT would give it */
export function splitWarning(split: number, layers: number): string | undefined {
  if (split / layers <= usualDeviceShare) return undefined
  const percent = Math.round((100 * split) / layers)
  return `${split} of ${layers} layers (${percent} %) go to the device; HAT keeps it under ${100 * usualDeviceShare} %`
}

/** @throws BrimError ARCHITECTURE_UNSUPPORTED where rows do not fall into whole blocks of 32 */
export function checkFormat(format: WeightFormat, { dims }: Architecture, drafters: readonly DrafterSpec[]): void {
  if (format.name !== 'int4') return
  const widths: [string, number][] = [
    ['the hidden size', dims.hidden],
    ['the MLP width', dims.ffn],
    ['the width of all heads', dims.heads * dims.headDim],
  ]
  for (const drafter of drafters)
    if ('adapter' in drafter) {
      const { heads, headDim } = drafter.adapter
      widths.push([`the width of the heads of ${drafter.part}`, heads * headDim])
    }
  const odd = widths.find(([, width]) => width % int4BlockSize !== 0)
  if (!odd) return
  throw new BrimError('ARCHITECTURE_UNSUPPORTED', `int4 needs multiples of ${int4BlockSize}, but ${odd[0]} is ${odd[1]}`, {
    hint: 'build with --format fp16',
  })
}

/** The parts of a bundle, in the order in which a token meets them (adapters before the middle, Medusa heads after the output). */
export function partSpecs(
  model: Architecture,
  format: WeightFormat,
  split: number | undefined,
  drafters: readonly DrafterSpec[],
): PartSpec[] {
  const { layers } = model.dims
  const common = { model, format }
  if (split === undefined) return [{ part: 'whole', layers: [0, layers], ...common }]
  const adapters = drafters.filter((drafter) => drafter.part !== 'medusa')
  const medusas = drafters.filter((drafter) => drafter.part === 'medusa')
  return [
    { part: 'input', layers: [0, split], ...common },
    ...adapters.map((drafter) => ({ ...drafter, layers: [0, 1] as const, ...common })),
    { part: 'middle', layers: [split, layers], ...common },
    { part: 'output', layers: [layers, layers], ...common },
    ...medusas.map((drafter) => ({ ...drafter, layers: [layers, layers] as const, ...common })),
  ]
}
