import { BrimError } from '../../kit/base/errors.ts'
import { megabytes } from '../../kit/base/megabytes.ts'
import type { Architecture } from './architecture.ts'
import { type BundleFormats, maxUsualSplit } from './build-options.ts'
import { type AdapterSpec, adapterAt } from './drafters.ts'
import { type MemoryNeed, memoryNeeds } from './memory-need.ts'

/** Positions that are planned for where nothing else is given; models with a shorter context have fewer. */
export const plannedContext = 4_096

export interface SplitRequest {
  readonly model: Architecture
  readonly formats: BundleFormats
  /** The checkpoint's adapter, or a draft head, if there is one. */
  readonly adapter: AdapterSpec | undefined
  /** Of a device, for weights and KV of one session. Undefined: any. */
  readonly deviceBytes: number | undefined
  readonly context: number
}

export interface ChosenSplit {
  readonly split: number
  readonly reason: string
}

/**
 * Where to split for a given memory. The split that the checkpoint's adapter was trained for, because another one has no
 * drafts and pays a round trip per token. Otherwise the deepest that fits, up to a tenth of the layers: depth hides the
 * text better, and beyond HAT's share the device's own steps slow the answer.
 * @throws BrimError SPLIT_OUT_OF_RANGE if none fits
 */
export function chooseSplit(request: SplitRequest): ChosenSplit {
  const { model, adapter, deviceBytes } = request
  const within = deviceBytes === undefined ? '' : ` that fits in ${megabytes(deviceBytes)}`
  if (adapter && 'adapter' in adapter && fits(adapter.adapter.split, request))
    return { split: adapter.adapter.split, reason: 'its adapter was trained for this split' }
  const deepest = maxUsualSplit(model.dims.layers)
  for (let split = deepest; split >= 1; split--)
    if (fits(split, request)) return { split, reason: `the deepest${within}, up to a tenth of the layers` }
  const least = sumOf(deviceNeed(1, request))
  throw new BrimError(
    'SPLIT_OUT_OF_RANGE',
    `no split fits in ${megabytes(deviceBytes ?? 0)}: one layer needs ${megabytes(least)} on the device`,
    {
      hint: 'build with --device-format int4, give more --device-memory, or choose a smaller model',
    },
  )
}

/** Every split that fits, the shallowest first, with the bytes that it takes of a device. @throws as `chooseSplit` */
export function fittingSplits(request: SplitRequest): [split: number, deviceBytes: number][] {
  chooseSplit(request)
  const all = Array.from({ length: request.model.dims.layers - 1 }, (_, at) => at + 1)
  return all.filter((split) => fits(split, request)).map((split) => [split, sumOf(deviceNeed(split, request))])
}

const sumOf = ({ weightBytes, kvBytes }: MemoryNeed): number => weightBytes + kvBytes

function deviceNeed(split: number, { model, formats, adapter, context }: SplitRequest): MemoryNeed {
  return memoryNeeds(model, formats, split, adapterAt(adapter, split), { sessions: 1, context }).device
}

const fits = (split: number, request: SplitRequest): boolean =>
  split < request.model.dims.layers &&
  (request.deviceBytes === undefined || sumOf(deviceNeed(split, request)) <= request.deviceBytes)
