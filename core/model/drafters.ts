import { basename, join, resolve } from 'node:path'
import { BrimError } from '../base/errors.ts'
import { adapterConfigFile, adapterWeightsFile, readAdapter } from './adapter-files.ts'
import type { Adapter, Architecture, Medusa } from './architecture.ts'
import { readJson } from './checkpoint.ts'
import { invalidDrafter } from './drafter-config.ts'
import type { DrafterPart } from './manifest.ts'
import { medusaConfigFile, medusaWeightsFile, readMedusa } from './medusa-files.ts'
import { TensorFiles } from './tensor-files.ts'

/** What a drafter is, as its folder says. */
export type DrafterSpec =
  | { readonly part: 'adapter' | 'adapter-paper'; readonly adapter: Adapter }
  | { readonly part: 'medusa'; readonly medusa: Medusa }

export interface DrafterFiles extends AsyncDisposable {
  readonly spec: DrafterSpec
  readonly tensors: TensorFiles
}

export interface DrafterOptions {
  /** Layers of the input part; absent: one `whole` part. */
  readonly split: number | undefined
  /** Which drafters; absent: `adapter`, where there is one for this split. */
  readonly drafters: readonly DrafterPart[] | undefined
  /** Folder of `adapter`, where it is not the checkpoint's own. */
  readonly adapter: string | undefined
  readonly warn: (message: string) => void
}

/**
 * Opens the drafters that go into a bundle, each from its own folder within the checkpoint's.
 * @throws BrimError USAGE, CHECKPOINT_NOT_FOUND where one asked for is missing, SPLIT_OUT_OF_RANGE where it was trained for another split,
 * CHECKPOINT_INVALID, ARCHITECTURE_UNSUPPORTED, SAFETENSORS_INVALID
 */
export async function openDrafters(
  checkpoint: string,
  model: Architecture,
  { split, drafters, adapter, warn }: DrafterOptions,
): Promise<DrafterFiles[]> {
  const asked = new Set(drafters ?? (adapter === undefined ? [] : (['adapter'] as const)))
  if (adapter !== undefined && !asked.has('adapter'))
    throw new BrimError('USAGE', 'an adapter is given, but not among the drafters', {
      hint: 'add adapter to --drafters, or leave --adapter out',
    })
  if (split === undefined) {
    if (asked.size === 0) return []
    throw new BrimError('USAGE', `${[...asked].join(', ')} belongs to a split model`, {
      hint: 'give --split too, or leave --drafters and --adapter out',
    })
  }
  const opened: DrafterFiles[] = []
  try {
    for (const name of drafters === undefined ? (['adapter'] as const) : asked) {
      const folder = name === 'adapter' && adapter !== undefined ? adapter : join(checkpoint, name)
      const spec = await readSpec(folder, name, model)
      if (spec === undefined) {
        if (asked.has(name)) throw missingDrafter(folder, name, folder === adapter)
      } else if ('adapter' in spec && spec.adapter.split !== split) {
        if (asked.has(name)) throw wrongSplit(folder, name, spec.adapter.split, split)
        warn(`${trainedFor(folder, name, spec.adapter.split, split)}: it is left out, so devices will not draft`)
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
  const json = await readJson(folder, configFileOf(name))
  if (json === undefined) return undefined
  if (name === 'medusa') return { part: name, medusa: readMedusa(folder, json, model) }
  const adapter = readAdapter(folder, json, model)
  if (name === 'adapter-paper' && adapter.features)
    throw invalidDrafter(join(folder, adapterConfigFile), "adapter of the paper's form", 'features: it has none')
  return { part: name, adapter }
}

async function openFiles(folder: string, spec: DrafterSpec): Promise<DrafterFiles> {
  const file = spec.part === 'medusa' ? medusaWeightsFile : adapterWeightsFile
  const tensors = await TensorFiles.open([join(folder, file)], basename(resolve(folder)))
  return { spec, tensors, [Symbol.asyncDispose]: () => tensors[Symbol.asyncDispose]() }
}

/** @param isGiven the folder is not the checkpoint's own */
function missingDrafter(folder: string, name: DrafterPart, isGiven: boolean): BrimError {
  return new BrimError('CHECKPOINT_NOT_FOUND', `there is no drafter ${name}: ${folder} holds no ${configFileOf(name)}`, {
    hint: isGiven
      ? 'give the folder that it was exported to with --adapter'
      : `train it and export it there, or leave ${name} out of --drafters`,
  })
}

const trainedFor = (folder: string, name: DrafterPart, is: number, asked: number) =>
  `the ${name} in ${folder} was trained for a split after layer ${is}, not ${asked}`

function wrongSplit(folder: string, name: DrafterPart, is: number, asked: number): BrimError {
  return new BrimError('SPLIT_OUT_OF_RANGE', trainedFor(folder, name, is, asked), {
    hint: `build with --split ${is}, or without this drafter`,
  })
}
