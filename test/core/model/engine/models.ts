import { join } from 'node:path'
import { type BuildOptions, buildBundle } from '../../../../core/model/bundle/build.ts'
import type { Manifest } from '../../../../core/model/bundle/manifest.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import { type LoadedModel, openModel } from '../../../../core/model/engine/open-model.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { type RandomCheckpointOptions, tinyLlamaConfig, writeRandomCheckpoint } from '../../../../lab/random-checkpoint.ts'
import { tempDir } from '../../../support/temp-dir.ts'

/** Wide enough that the library picks the kernels that real models get. */
export const smallConfig = {
  ...tinyLlamaConfig,
  hidden_size: 256,
  intermediate_size: 704,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  vocab_size: 640,
} as const

export interface Workshop extends AsyncDisposable {
  readonly runtime: Runtime
  readonly folder: string
  readonly checkpoint: string
  /** Builds a bundle of the random checkpoint and loads the parts of the whole model and the requested drafters. */
  open(
    options: Pick<BuildOptions, 'format' | 'split' | 'accuracyLevel' | 'blockSize' | 'drafters'>,
  ): Promise<LoadedModel & { readonly folder: string }>
}

/** A random checkpoint, and a runtime with bundles of it. */
export async function workshop(
  config: Readonly<Record<string, unknown>> = tinyLlamaConfig,
  dtype: 'F32' | 'F16' = 'F32',
  drafters: Pick<RandomCheckpointOptions, 'adapter' | 'adapterPaper' | 'medusa'> = {},
): Promise<Workshop> {
  const dir = tempDir()
  const runtime = await openRuntime()
  const checkpoint = join(dir.path, 'checkpoint')
  await writeRandomCheckpoint(checkpoint, { config, dtype, seed: 5, ...drafters })
  const models: LoadedModel[] = []
  return {
    runtime,
    folder: dir.path,
    checkpoint,
    async open(options) {
      const out = join(dir.path, `bundle-${models.length}`)
      await buildBundle({ checkpoint, out, ...options })
      const requested = options.drafters ?? []
      const parts = requested.length === 0 ? 'chain' : (['input', 'middle', 'output', ...requested] as const)
      const model = await openModel(runtime, out, { parts, threads: 1 })
      models.push(model)
      return {
        manifest: model.manifest,
        type: model.type,
        folder: out,
        part: (name) => model.part(name),
        head: () => model.head(),
        medusa: () => model.medusa(),
        chain: (cuts) => model.chain(cuts),
        releaseFree: () => model.releaseFree(),
        release: () => model.release(),
        [Symbol.asyncDispose]: () => model.release(),
      }
    },
    async [Symbol.asyncDispose]() {
      for (const model of models) await model.release()
      await runtime.close()
      dir[Symbol.dispose]()
    },
  }
}

/** Valid token ids, the same for the same seed. */
export function someIds({ dims }: Pick<Manifest, 'dims'>, count: number, seed = 1): number[] {
  return Array.from({ length: count }, (_, i) => ((i + 1) * 2_654_435_761 + seed * 40_503) % dims.vocab)
}

export function largestDifference(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY
  let largest = 0
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs(a[i]! - b[i]!)
    if (!(difference <= largest)) largest = difference
  }
  return largest
}
