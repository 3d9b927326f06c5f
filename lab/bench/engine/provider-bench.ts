import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { z } from 'zod'
import { nonEmpty } from '../../../core/kit/base/setting-kinds.ts'
import { tempFolder } from '../../../core/kit/base/temp-folder.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { type Provider, providerOf, shortNameOf } from '../../../core/model/engine/provider.ts'
import { WorkerProcess } from '../../cluster/worker-process.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { sum } from '../../frame/statistics.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../random-checkpoint.ts'
import type { ExactnessReply, ExactnessRequest } from './exactness-worker.ts'
import { type ProviderRun, providerFigures, type SpeedRun, showProvider } from './provider-report.ts'
import type { EngineReply, EngineRequest } from './worker.ts'

const options = {
  provider: nonEmpty.optional().meta({
    description: 'measures this provider instead: cpu, webgpu, cuda, or the name of a provider of ONNX Runtime',
    fallback: 'our engine against the stock binding, on the CPU',
  }),
  providerPlugin: nonEmpty
    .optional()
    .meta({ description: 'library of that provider, a plug-in of ONNX Runtime', fallback: 'none' }),
}
type ProviderOptions = z.output<z.ZodObject<typeof options>>

/** `brim bench engine --provider P` */
export const providerBench = tabledBench<ProviderRun, typeof options>({
  name: 'provider',
  commandLine: 'brim bench engine',
  title: 'The engine on a provider',
  contents: 'every sample',
  figureText: 'Tokens per second by measurement',
  quickLimit: '3 minutes',
  quickRepetitions: 1,
  options,
  examples: [
    ['brim bench engine --provider webgpu --quick', 'where nodes run, which tokens differ from the CPU, and how fast it is'],
  ],
  figures: providerFigures,
  measure: (context, given) => measureProvider(context.quick ? quick : full, context, given),
  show: showProvider,
})

/** As small as it can be: a GPU in software takes seconds for each graph. */
const tiny = { ...tinyLlamaConfig, num_hidden_layers: 2 }

/** A Llama of 100 million parameters. */
const small = {
  ...tinyLlamaConfig,
  hidden_size: 1_024,
  intermediate_size: 2_816,
  num_hidden_layers: 8,
  num_attention_heads: 16,
  num_key_value_heads: 8,
  vocab_size: 8_192,
  max_position_embeddings: 2_048,
}

export interface ProviderEffort {
  /** Configuration of the model whose speed is measured; its context holds 1,024 tokens and some. */
  readonly timed: Readonly<Record<string, unknown>> & { readonly num_hidden_layers: number }
  readonly formats: readonly ('fp32' | 'int4')[]
  /** Of both formats, split and whole, with a tiny model. */
  readonly exactness: Pick<ExactnessRequest, 'prompts' | 'tokens' | 'rows'>
  readonly contexts: readonly number[]
  readonly packed: readonly number[]
  /** Not of a tiny model, whose weights are less than what the library takes for itself. */
  readonly memory: boolean
  readonly rounds: number
  readonly tokensPerRound: number
}

const full: ProviderEffort = {
  timed: small,
  formats: ['fp32', 'int4'],
  exactness: { prompts: 8, tokens: 48, rows: 150 },
  contexts: [128, 1_024],
  packed: [8, 16],
  memory: true,
  rounds: 8,
  tokensPerRound: 16,
}
const quick: ProviderEffort = {
  ...full,
  timed: { ...tiny, max_position_embeddings: 1_100 },
  memory: false,
  exactness: { prompts: 2, tokens: 8, rows: 30 },
  rounds: 2,
  tokensPerRound: 6,
}

const threads = 2
const seed = 1
const warmUp = 2
/** Context of packed steps. */
const packedContext = 128

export async function measureProvider(effort: ProviderEffort, context: BenchContext, given: ProviderOptions) {
  const provider = providerOf({ name: given.provider ?? 'cpu', plugin: given.providerPlugin })
  await using folder = await tempFolder('bench')
  const runs: ProviderRun[] = []
  const onnxruntime = await measureExactness(provider, effort, folder.path, runs, context)
  await measureSpeed(provider, effort, folder.path, runs, context)
  const shown = shortNameOf(provider.name)
  return { conditions: { onnxruntime, provider: shown, threads, seed, warmUp, packedContext, effort }, runs }
}

/** @returns the version of ONNX Runtime */
async function measureExactness(
  provider: Provider,
  { formats, exactness }: ProviderEffort,
  folder: string,
  runs: ProviderRun[],
  { io, progress }: BenchContext,
): Promise<string> {
  const checkpoint = join(folder, 'tiny')
  await writeRandomCheckpoint(checkpoint, { config: tiny, dtype: 'F32', seed })
  await using worker: WorkerProcess<ExactnessRequest, ExactnessReply> = new WorkerProcess(
    new URL('./exactness-worker.js', import.meta.url),
    io,
  )
  let version = ''
  for (const format of formats)
    for (const split of [false, true]) {
      progress(`${format}, ${split ? 'split' : 'whole'}: where nodes run, tokens against the CPU, rows in company`)
      const bundle = join(folder, `tiny-${format}-${split ? 'split' : 'whole'}`)
      // At accuracy level 4 the CPU rounds rows to 8 bits, which other providers do not.
      await buildBundle({ checkpoint, out: bundle, format, accuracyLevel: 1, ...(split && { split: 1 }) })
      const runtime = { library: io.env.ORT_LIB, provider }
      const { onnxruntime, ...measured } = await worker.ask({ bundle, runtime, ...exactness })
      runs.push({ kind: 'exactness', format, split, ...measured })
      version = onnxruntime
    }
  return version
}

async function measureSpeed(
  provider: Provider,
  effort: ProviderEffort,
  folder: string,
  runs: ProviderRun[],
  context: BenchContext,
): Promise<void> {
  const { io, progress } = context
  const checkpoint = await writeCheckpoint(join(folder, 'timed'), effort.timed)
  for (const format of effort.formats) {
    progress(`${format}: prefill, decode and packed steps`)
    const bundle = join(folder, `timed-${format}`)
    await buildBundle({ checkpoint, out: bundle, format, signal: io.signal })
    await using engine = await openEngine(provider, bundle, context)
    const ask = samplesOf(engine, runs, format)
    for (let round = 0; round < effort.rounds; round++) {
      await ask({ kind: 'prefill', context: 128 }, round > 0)
      for (const at of effort.contexts)
        await ask({ kind: 'decode', context: at, tokens: effort.tokensPerRound, warmUp }, round > 0)
    }
    let memoryBytes: number | undefined
    for (const sequences of effort.packed)
      memoryBytes = await ask({ kind: 'packed', context: packedContext, sequences, rounds: effort.rounds + 1 }, true)
    if (effort.memory && memoryBytes !== undefined)
      runs.push({ kind: 'memory', format, memoryBytes, weightBytes: await weightBytesOf(bundle) })
  }
  progress('launch overhead')
  const nodes = effort.timed.num_hidden_layers
  const config = { ...tinyLlamaConfig, num_hidden_layers: nodes }
  const bundle = join(folder, 'launch-bundle')
  await buildBundle({ checkpoint: await writeCheckpoint(join(folder, 'launch'), config), out: bundle, format: 'fp32' })
  await using engine = await openEngine(provider, bundle, context)
  const { samples } = await engine.ask({ kind: 'decode', context: 16, tokens: 4 * effort.tokensPerRound, warmUp })
  for (const { tokens, samplesMs } of samples)
    runs.push({ kind: 'speed', format: 'fp32', measured: 'launch', context: 16, tokens, samplesMs })
}

type Engine = WorkerProcess<EngineRequest, EngineReply>

async function openEngine(provider: Provider, bundle: string, { io }: BenchContext): Promise<Engine> {
  const engine: Engine = new WorkerProcess(new URL('./worker.js', import.meta.url), io)
  await engine.ask({ kind: 'open', style: 'in-place', bundle, threads, library: io.env.ORT_LIB, provider })
  return engine
}

/** Asks an engine; samples that count are added to those of the same measurement. @returns the memory that it has by now */
function samplesOf(engine: Engine, runs: ProviderRun[], format: SpeedRun['format']) {
  const samplesAt = new Map<string, number[]>()
  return async (request: Exclude<EngineRequest, { kind: 'open' }>, counts: boolean): Promise<number | undefined> => {
    const { samples, memoryBytes } = await engine.ask(request)
    for (const { measured, tokens, samplesMs } of samples) {
      if (!counts || measured === 'separate' || measured === 'build') continue
      const key = `${measured}.${request.context}.${tokens}`
      const before = samplesAt.get(key)
      if (before) before.push(...samplesMs)
      else {
        const own = measured === 'packed' ? samplesMs.slice(1) : [...samplesMs]
        samplesAt.set(key, own)
        runs.push({ kind: 'speed', format, measured, context: request.context, tokens, samplesMs: own })
      }
    }
    return memoryBytes
  }
}

async function writeCheckpoint(folder: string, config: Readonly<Record<string, unknown>>): Promise<string> {
  await writeRandomCheckpoint(folder, { config, dtype: 'F16', seed })
  return folder
}

async function weightBytesOf(bundle: string): Promise<number> {
  const { parts } = await readManifest(bundle)
  const files = [...new Set(parts.whole?.weights.map(({ file }) => file))]
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(bundle, file))).size))
  return sum(sizes)
}
