import { BrimError } from '../../kit/base/errors.ts'
import { headerBytes, rowBytes } from '../../wire/protocol/frame.ts'
import { type Architecture, attentionOf } from './architecture.ts'
import { type ChosenSplit, chooseSplit, plannedContext, type SplitRequest } from './auto-split.ts'
import { type FormatOptions, formatsOf } from './build.ts'
import { checkFormat, partSpecs } from './build-options.ts'
import type { Checkpoint } from './checkpoint.ts'
import { countParameters } from './describe-bundle.ts'
import { adapterAt, findAdapter } from './drafters.ts'
import { type Format, formats } from './manifest.ts'
import { memoryNeeds, type SplitNeeds } from './memory-need.ts'
import { planParts } from './weight-plan.ts'

export interface AssessOptions {
  readonly deviceBytes?: number | undefined
  /** Sessions of the bridge. */
  readonly sessions: number
  /** Default: `plannedContext`, or the model's if it has less. */
  readonly context?: number | undefined
  /** A draft head in place of the checkpoint's adapter: its folder or file. */
  readonly draftHead?: string | undefined
}

export type FormatAssessment =
  | ({ readonly format: Format } & ChosenSplit & SplitNeeds)
  /** Why this format is not possible, or no split fits. */
  | { readonly format: Format; readonly problem: string }

export interface ModelAssessment {
  readonly family: string
  readonly parameters: number
  readonly dims: Architecture['dims']
  readonly kvHeads: number
  readonly sessions: number
  readonly context: number
  readonly formats: readonly FormatAssessment[]
  /** Of one verification, both ways: what is drafted and one row before. */
  readonly roundTrip: { readonly rows: number; readonly fp16Bytes: number; readonly int8Bytes: number }
  readonly draft: { readonly adapterSplit: number | undefined; readonly draftHead: boolean; readonly promptLookup: true }
}

/** Rows of a verification of four drafted tokens. */
const roundRows = 5

type SplitOptions = Omit<FormatOptions, 'split' | 'accuracyLevel'> & {
  readonly deviceBytes: number | undefined
  /** Folder of the adapter. Default: in the checkpoint's. */
  readonly adapter?: string | undefined
  readonly draftHead?: string | undefined
}

/** Where `brim model build --split auto` splits. @throws BrimError SPLIT_OUT_OF_RANGE, and for an adapter that cannot be read */
export async function splitFor(checkpoint: Checkpoint, options: SplitOptions): Promise<ChosenSplit> {
  return chooseSplit(await splitRequestOf(checkpoint, options))
}

/** @throws BrimError for an adapter that cannot be read */
export async function splitRequestOf(checkpoint: Checkpoint, options: SplitOptions): Promise<SplitRequest> {
  const { architecture: model } = checkpoint
  const { deviceBytes, format, deviceFormat, blockSize } = options
  const adapter = await findAdapter(checkpoint, options)
  // Any split: the formats of devices differ only in a split model.
  const formats = formatsOf({ format, deviceFormat, blockSize, split: 1 }, checkpoint)
  const context = Math.min(plannedContext, model.dims.contextLimit)
  return { model, formats, adapter, deviceBytes, context }
}

/** What a checkpoint would need as a bundle, before it is built. @throws BrimError for an adapter that cannot be read */
export async function assessModel(checkpoint: Checkpoint, options: AssessOptions): Promise<ModelAssessment> {
  const { architecture: model } = checkpoint
  const { dims, family } = model
  const { sessions, deviceBytes, draftHead } = options
  const context = Math.min(options.context ?? plannedContext, dims.contextLimit)
  const adapter = await findAdapter(checkpoint, { draftHead })
  const assess = (format: Format): FormatAssessment => {
    try {
      const chosen = formatsOf({ format }, checkpoint)
      checkFormat(chosen.format, model, adapter ? [adapter] : [])
      const found = chooseSplit({ model, formats: chosen, adapter, deviceBytes, context })
      return {
        format,
        ...found,
        ...memoryNeeds(model, chosen, found.split, adapterAt(adapter, found.split), { sessions, context }),
      }
    } catch (error) {
      if (error instanceof BrimError) return { format, problem: error.message }
      throw error
    }
  }
  const whole = planParts(partSpecs(model, formatsOf({ format: 'fp32' }, checkpoint), {}, []))
  const bytesOf = (wire: 'fp16' | 'int8') => 2 * (headerBytes + roundRows * rowBytes(wire, dims.hidden))
  const [first] = whole
  return {
    family,
    parameters: countParameters(whole),
    dims,
    kvHeads: first ? attentionOf(first.spec).kvHeads : dims.heads,
    sessions,
    context,
    formats: formats.map(assess),
    roundTrip: { rows: roundRows, fp16Bytes: bytesOf('fp16'), int8Bytes: bytesOf('int8') },
    draft: {
      adapterSplit: adapter && 'adapter' in adapter ? adapter.adapter.split : undefined,
      draftHead: draftHead !== undefined,
      promptLookup: true,
    },
  }
}
