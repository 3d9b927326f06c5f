import { basename, join, resolve } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { adapterConfigFile, adapterWeightsFile, readAdapter } from './adapter-files.ts'
import type { Adapter, Architecture, DraftHead, Medusa } from './architecture.ts'
import { type Checkpoint, readJsonFile } from './checkpoint.ts'
import { openDraftHead } from './draft-head-files.ts'
import { invalidDrafter } from './drafter-config.ts'
import type { DrafterPart } from './manifest.ts'
import { medusaConfigFile, medusaWeightsFile, readMedusa } from './medusa-files.ts'
import { TensorFiles } from './tensor-files.ts'

/** A drafter's kind and shape, from the configuration in its folder. */
export type DrafterSpec =
  | { readonly part: 'adapter' | 'adapter-paper'; readonly adapter: Adapter }
  | { readonly part: 'adapter'; readonly draftHead: DraftHead }
  | { readonly part: 'medusa'; readonly medusa: Medusa }

export type AdapterSpec = Exclude<DrafterSpec, { medusa: unknown }>

export interface DrafterFiles extends AsyncDisposable {
  readonly spec: DrafterSpec
  readonly tensors: TensorFiles
}

interface DrafterOptions {
  /** Layers of the input part; undefined for one `whole` part. */
  readonly split: number | undefined
  /** Undefined: `adapter`, if the checkpoint has one for this split. */
  readonly drafters: readonly DrafterPart[] | undefined
  /** Folder of `adapter`; undefined: the checkpoint's own. */
  readonly adapter: string | undefined
  /** A draft head in place of `adapter`: its folder or file. */
  readonly draftHead: string | undefined
  readonly warn: (message: string) => void
}

/**
 * Opens the drafters of a bundle, each from its own folder in the checkpoint's folder.
 * @throws BrimError USAGE, CHECKPOINT_NOT_FOUND if a requested drafter is missing, SPLIT_OUT_OF_RANGE if it was trained for
 * another split, CHECKPOINT_INVALID, ARCHITECTURE_UNSUPPORTED, SAFETENSORS_INVALID
 */
export async function openDrafters(
  { folder: checkpoint, architecture: model, tensors }: Pick<Checkpoint, 'folder' | 'architecture' | 'tensors'>,
  { split, drafters, adapter, draftHead, warn }: DrafterOptions,
): Promise<DrafterFiles[]> {
  const given = adapter === undefined ? '--draft-head' : '--adapter'
  const own = adapter ?? draftHead
  const requested = new Set(drafters ?? (own === undefined ? [] : (['adapter'] as const)))
  if (adapter !== undefined && draftHead !== undefined)
    throw new BrimError('USAGE', '--adapter and --draft-head both give the adapter of the bundle', { hint: 'omit one of them' })
  if (own !== undefined && !requested.has('adapter'))
    throw new BrimError('USAGE', `${given} is given, but --drafters does not include adapter`, {
      hint: `add adapter to --drafters, or omit ${given}`,
    })
  if (split === undefined) {
    if (requested.size === 0) return []
    throw new BrimError('USAGE', `${[...requested].join(', ')} needs a split model`, {
      hint: 'give --split too, or omit --drafters, --adapter and --draft-head',
    })
  }
  const opened: DrafterFiles[] = []
  try {
    for (const name of drafters === undefined ? (['adapter'] as const) : requested) {
      if (name === 'adapter' && draftHead !== undefined) {
        const { head, ...files } = await openDraftHead(draftHead, model, tensors)
        opened.push({ spec: { part: name, draftHead: head }, ...files })
        continue
      }
      const folder = name === 'adapter' && adapter !== undefined ? adapter : join(checkpoint, name)
      const spec = await readSpec(folder, name, model)
      if (spec === undefined) {
        if (requested.has(name)) throw missingDrafter(folder, name, folder === adapter)
      } else if ('adapter' in spec && spec.adapter.split !== split) {
        if (requested.has(name)) throw wrongSplit(folder, name, spec.adapter.split, split)
        warn(`${trainedFor(folder, name, spec.adapter.split, split)}: the bundle will not contain it, and devices will not draft`)
      } else opened.push(await openFiles(folder, spec))
    }
    return opened
  } catch (error) {
    await Promise.all(opened.map((files) => files[Symbol.asyncDispose]()))
    throw error
  }
}

const configFileOf = (name: DrafterPart) => (name === 'medusa' ? medusaConfigFile : adapterConfigFile)

async function readSpec(folder: string, name: DrafterPart, model: Architecture): Promise<DrafterSpec | undefined> {
  const json = await readJsonFile(folder, configFileOf(name))
  if (json === undefined) return undefined
  if (name === 'medusa') return { part: name, medusa: readMedusa(folder, json, model) }
  const adapter = readAdapter(folder, json, model)
  if (name === 'adapter-paper' && adapter.features)
    throw invalidDrafter(join(folder, adapterConfigFile), 'adapter-paper', 'features must be false')
  return { part: name, adapter }
}

/**
 * What a bundle would have as its adapter: the one in a checkpoint's folder, in `adapter`, or a draft head.
 * @throws BrimError CHECKPOINT_INVALID, ARCHITECTURE_UNSUPPORTED, and as openDraftHead
 */
export async function findAdapter(
  { folder, architecture }: Pick<Checkpoint, 'folder' | 'architecture'>,
  { adapter = join(folder, 'adapter'), draftHead }: Partial<Pick<DrafterOptions, 'adapter' | 'draftHead'>>,
): Promise<AdapterSpec | undefined> {
  if (draftHead !== undefined) {
    await using opened = await openDraftHead(draftHead, architecture)
    return { part: 'adapter', draftHead: opened.head }
  }
  const spec = await readSpec(adapter, 'adapter', architecture)
  return spec && 'adapter' in spec ? spec : undefined
}

/** The adapter, if a bundle of this split can have it: a draft head fits any. */
export const adapterAt = (adapter: AdapterSpec | undefined, split: number): AdapterSpec[] =>
  adapter && (!('adapter' in adapter) || adapter.adapter.split === split) ? [adapter] : []

async function openFiles(folder: string, spec: DrafterSpec): Promise<DrafterFiles> {
  const file = spec.part === 'medusa' ? medusaWeightsFile : adapterWeightsFile
  const tensors = await TensorFiles.open([join(folder, file)], { folder: basename(resolve(folder)) })
  return { spec, tensors, [Symbol.asyncDispose]: () => tensors[Symbol.asyncDispose]() }
}

/** @param isGiven the folder was given with --adapter */
function missingDrafter(folder: string, name: DrafterPart, isGiven: boolean): BrimError {
  return new BrimError('CHECKPOINT_NOT_FOUND', `drafter ${name} is missing: ${folder} has no ${configFileOf(name)}`, {
    hint: isGiven
      ? 'give the folder of the exported adapter with --adapter'
      : `train the drafter and export it there, or remove ${name} from --drafters`,
  })
}

const trainedFor = (folder: string, name: DrafterPart, is: number, requested: number) =>
  `the ${name} in ${folder} was trained for a split after layer ${is}, not ${requested}`

function wrongSplit(folder: string, name: DrafterPart, is: number, requested: number): BrimError {
  return new BrimError('SPLIT_OUT_OF_RANGE', trainedFor(folder, name, is, requested), {
    hint: `build with --split ${is}, or without this drafter`,
  })
}
