import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { defaultInt4BlockSize } from '../bundle/architecture.ts'
import { chainParts, readManifest } from '../bundle/bundle.ts'
import { maxTiledHeadDim } from '../bundle/graph-io.ts'
import {
  draftOutput,
  encoder,
  formatOf,
  graphKey,
  isDrafter,
  type Manifest,
  manifestSchema,
  type PartManifest,
  type PartName,
  type SlotCount,
} from '../bundle/manifest.ts'
import { buildPartGraph } from '../bundle/part-graph.ts'
import { rebuildPlan } from '../bundle/rebuild-plan.ts'
import { AttentionPart } from './attention-part.ts'
import { SplitChain, WholeChain } from './chain.ts'
import type { Chain, Head, MedusaHeads, Part } from './contract.ts'
import { LogitsPart } from './logits-part.ts'
import { StatesPart } from './part.ts'
import type { PartSource } from './part-sessions.ts'
import type { DeviceMemory, Runtime } from './runtime.ts'
import type { Cut } from './states-tensors.ts'
import { WeightStore } from './weights.ts'

export interface OpenModelOptions {
  /** 'chain': the parts of the whole model, either `whole` or `input`, `middle` and `output`. */
  readonly parts: readonly PartName[] | 'chain'
  /** Threads within one operator. */
  readonly threads: number
  /** Slot counts whose graphs are compiled at once instead of in the first step that needs them. Default: 1. */
  readonly slots?: readonly SlotCount[]
  /** Also compile their graphs for trees at once. Default: false. */
  readonly branching?: boolean
  /** KV memory without a sequence that each part keeps, at most. Default: 64 MiB. */
  readonly maxFreeKvBytes?: number
  /** Called after the release of the model. */
  readonly onRelease?: () => Promise<void>
}

const maxThreads = 256

/** Parts that are a head without blocks of its own. */
export type HeadName = 'output' | typeof draftOutput

/** The loaded parts of one bundle. */
export interface LoadedModel extends AsyncDisposable {
  readonly manifest: Manifest
  /** What it computes in. */
  readonly type: DeviceMemory['type']
  /** `input`, `middle`, `encoder`, `adapter` or `adapter-paper`. @throws BrimError BUNDLE_INVALID if the part is not loaded */
  part(name: PartName): Part
  /** Default: `output`. */
  head(name?: HeadName): Head
  /** `medusa`. */
  medusa(): MedusaHeads
  /** `whole`, or `input` → `middle` → `output`. */
  chain(options: { readonly cuts: Cut }): Chain
  /** Gives KV memory that no sequence uses, and pages of weights, back to the system, until they are used again. */
  releaseFree(): void
  /** Waits for running steps, then frees everything. */
  release(): Promise<void>
}

/**
 * Loads parts of a bundle.
 * @throws BrimError CONFIG_INVALID, BUNDLE_INVALID, BUNDLE_CORRUPT, PROVIDER_UNAVAILABLE, RUNTIME_FAILED, OUT_OF_MEMORY
 */
export async function openModel(runtime: Runtime, folder: string, options: OpenModelOptions): Promise<LoadedModel> {
  checkThreads(options.threads)
  const manifest = await readManifest(folder)
  const model = new BundleModel(manifest, runtime, folder, options.onRelease)
  try {
    const parts = options.parts === 'chain' ? chainParts(manifest) : options.parts
    for (const name of parts) await model.load(name, { runtime, folder, ...options })
    return model
  } catch (error) {
    await model.release()
    throw error
  }
}

/** The library would start any number of threads for every graph. */
function checkThreads(threads: number): void {
  if (Number.isInteger(threads) && threads >= 1 && threads <= maxThreads) return
  throw new BrimError('CONFIG_INVALID', `the number of threads is ${threads}; it must be 1 to ${maxThreads}`, {
    hint: 'use at most the number of cores of the machine',
  })
}

/** See PartSource. */
function needsEvenRows({ name, accuracyLevel, blockSize = defaultInt4BlockSize }: Manifest['format']): boolean {
  return (name === 'int4' || name === 'int8') && (accuracyLevel === 1 || blockSize !== defaultInt4BlockSize)
}

function medusaOf({ heads, tree }: PartManifest): Pick<MedusaHeads, 'heads' | 'tree'> {
  if (heads === undefined || tree === undefined) throw new Error('the manifest was not checked')
  return { heads, tree }
}

/** See PartSource. The kernel that a step of few rows has in other graphs copies keys and values once for each query head. */
function groupedHeads({ schema, dims }: Manifest, name: PartName, part: PartManifest, device: DeviceMemory | undefined) {
  const heads = dims.heads / part.kvHeads
  const isPlain = (name === 'middle' || name === 'whole') && !part.recurrent && part.window === undefined
  const isEven = heads % 2 === 0 && part.headDim <= maxTiledHeadDim
  return !device && schema >= manifestSchema && isPlain && isEven ? heads : undefined
}

/** Reads the graphs of a part from the bundle, and writes those that it lacks. */
function graphsOf(folder: string, manifest: Manifest, name: PartName, part: PartManifest): PartSource['graph'] {
  return async (slots, form) => {
    if (form === 'grouped') return buildPartGraph(await rebuildPlan(folder, manifest, name, part), slots, form)
    const key = graphKey(slots, form === 'tree')
    const file = part.graphs[key]
    if (file === undefined)
      throw new BrimError('BUNDLE_INVALID', `part ${name} of ${folder} has no graph "${key}"`, { hint: 'build the bundle again' })
    const path = join(folder, file)
    return readFile(path).catch((cause: unknown) => {
      throw new BrimError('BUNDLE_CORRUPT', `${path} cannot be read`, { cause, hint: 'build the bundle again' })
    })
  }
}

/** Writes the graphs of a part for a device with a memory of its own, over the weights of the bundle. */
async function deviceGraphs(
  folder: string,
  manifest: Manifest,
  name: PartName,
  part: PartManifest,
  { type }: DeviceMemory,
): Promise<PartSource['graph']> {
  if (manifest.schema < manifestSchema || name === 'medusa')
    throw new BrimError('BUNDLE_INVALID', `part ${name} of ${folder} can be computed on the CPU only`, {
      hint: 'build the bundle again with this version, or choose --provider cpu',
    })
  if (part.recurrent)
    throw new BrimError('BUNDLE_INVALID', `part ${name} of ${folder} has recurrent layers, which only the CPU computes`, {
      hint: 'choose --provider cpu',
    })
  const plan = await rebuildPlan(folder, manifest, name, part)
  return (slots, form) => buildPartGraph(plan, slots, form, type)
}

class BundleModel implements LoadedModel {
  readonly manifest: Manifest
  readonly type: LoadedModel['type']
  readonly #weights: WeightStore
  readonly #attention: AttentionPart[] = []
  readonly #states = new Map<PartName, StatesPart>()
  /** `output`, `draft-output` and `medusa`. */
  readonly #logits = new Map<PartName, LogitsPart>()
  readonly #onRelease: OpenModelOptions['onRelease']
  #whole: AttentionPart | undefined

  constructor(manifest: Manifest, runtime: Runtime, folder: string, onRelease: OpenModelOptions['onRelease']) {
    this.manifest = manifest
    this.type = runtime.device?.type ?? 'float32'
    this.#weights = new WeightStore(runtime, folder)
    this.#onRelease = onRelease
  }

  async load(name: PartName, options: OpenModelOptions & Pick<PartSource, 'runtime' | 'folder'>): Promise<void> {
    const manifest = this.manifest.parts[name]
    if (!manifest) throw this.#missing(name)
    const { runtime, folder, threads, slots = [1], branching = false, maxFreeKvBytes } = options
    const { schema, dims } = this.manifest
    const format = formatOf(this.manifest, name)
    // Engine sessions of one set of weights share packed copies, and the head is one of those of `output`.
    const output = name === draftOutput ? this.#logits.get('output') : undefined
    const weights = output?.source.weights ?? (await this.#weights.load(manifest.weights))
    const { device } = runtime
    const graph = device
      ? await deviceGraphs(folder, this.manifest, name, manifest, device)
      : graphsOf(folder, this.manifest, name, manifest)
    const source = {
      runtime,
      folder,
      name,
      manifest,
      graph,
      weights,
      padsAttention: schema > 2,
      needsEvenRows: needsEvenRows(format),
      threads,
      groupedHeads: groupedHeads(this.manifest, name, manifest, device),
    }
    if (name === 'output' || name === draftOutput || name === 'medusa') {
      const part = new LogitsPart(source, dims, name === 'medusa' ? medusaOf(manifest).heads : 1)
      this.#logits.set(name, part)
      return part.prepare()
    }
    const part = new AttentionPart(source, dims, maxFreeKvBytes)
    this.#attention.push(part)
    await weights.pack(async () => {
      for (const count of slots) {
        await part.prepare(count, 'line')
        if (count > 1 && source.groupedHeads !== undefined) await part.prepare(count, 'grouped')
        if (branching && name !== 'whole' && name !== encoder && !manifest.recurrent) await part.prepare(count, 'tree')
      }
    })
    if (name === 'whole') this.#whole = part
    else this.#states.set(name, new StatesPart(part))
  }

  part(name: PartName): StatesPart {
    const part = this.#states.get(name)
    if (!part) throw this.#missing(name)
    return part
  }

  head(name: HeadName = 'output'): Head {
    return this.#logitsPart(name)
  }

  medusa(): MedusaHeads {
    const part = this.#logitsPart('medusa')
    return { ...medusaOf(part.source.manifest), guess: (deep) => part.logits(deep) }
  }

  chain({ cuts }: { readonly cuts: Cut }): Chain {
    if (this.#whole) return new WholeChain(this.manifest, this.#whole)
    return new SplitChain(this.manifest, { input: this.part('input'), middle: this.part('middle'), head: this.head() }, cuts)
  }

  releaseFree(): void {
    for (const part of this.#attention) part.releaseFree()
    this.#weights.releasePages()
  }

  async release(): Promise<void> {
    await Promise.all(this.#attention.map((part) => part.release()))
    for (const part of this.#logits.values()) await part.release()
    await this.#weights.release()
    await this.#onRelease?.()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }

  #logitsPart(name: PartName): LogitsPart {
    const part = this.#logits.get(name)
    if (!part) throw this.#missing(name)
    return part
  }

  #missing(name: PartName): BrimError {
    const has = Object.keys(this.manifest.parts).join(', ')
    const option =
      name === encoder
        ? '--embedding'
        : name === draftOutput
          ? '--draft-head'
          : isDrafter(name)
            ? `--drafters ${name}`
            : '--split'
    return new BrimError('BUNDLE_INVALID', `part ${name} of ${this.manifest.card.name} is not loaded; the bundle has ${has}`, {
      hint: name === 'whole' ? 'build the bundle without --split and --embedding' : `build the bundle with ${option}`,
    })
  }
}
