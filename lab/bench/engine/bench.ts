import { join } from 'node:path'
import { tempFolder } from '../../../core/kit/base/temp-folder.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import type { Format } from '../../../core/model/bundle/manifest.ts'
import { WorkerProcess } from '../../cluster/worker-process.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand, eitherCommand } from '../../frame/command.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { qwen05bConfig, writeRandomCheckpoint } from '../../random-checkpoint.ts'
import { peerBench } from './peer-bench.ts'
import { providerBench } from './provider-bench.ts'
import { type EngineRun, engineFigures, type Style, showEngine } from './report.ts'
import type { EngineReply, EngineRequest } from './worker.ts'

export const engineBench = tabledBench<EngineRun>({
  name: 'engine',
  title: 'Engine',
  contents: 'every sample',
  figureText: 'Tokens per second by context length',
  quickLimit: '2 minutes',
  quickRepetitions: 2,
  figures: engineFigures,
  measure: (context) => measureEngine({ small, qwen }, context.quick ? quick : full, context),
  show: showEngine,
})

/** `brim bench engine`, whose `--provider` and `--vs` measure something else. */
export const command = eitherCommand(benchCommand(engineBench), {
  vs: benchCommand(peerBench),
  provider: benchCommand(providerBench),
})

/** A Llama of 25 million parameters. */
const small = {
  architectures: ['LlamaForCausalLM'],
  hidden_size: 512,
  intermediate_size: 1408,
  num_hidden_layers: 8,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  vocab_size: 4096,
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  bos_token_id: 1,
  eos_token_id: 2,
} as const

const qwen = { ...qwen05bConfig, max_position_embeddings: 4096 }

const threads = 2
const seed = 1
const formats: readonly Format[] = ['fp32', 'fp16', 'int4']
/** Sequences of a packed step, and the tokens of context of each. */
const packed = { sequences: 8, context: 256 }
const qwenContext = 128

/** Configurations of the models, whose weights are random. */
interface Models {
  readonly small: Readonly<Record<string, unknown>>
  readonly qwen: Readonly<Record<string, unknown>>
}

interface Effort {
  readonly contexts: readonly number[]
  /** In each round every style in turn decodes `warmUp + tokensPerRound` tokens at each context. */
  readonly rounds: number
  readonly tokensPerRound: number
  readonly prefills: number
  readonly packedRounds: number
  readonly qwenRounds: number
}

/** Tokens at the start of a turn that are not counted: the other engine has just used the CPU caches. */
const warmUp = 4

const full: Effort = {
  contexts: [128, 512, 1024, 2000],
  rounds: 8,
  tokensPerRound: 16,
  prefills: 4,
  packedRounds: 80,
  qwenRounds: 10,
}
const quick: Effort = { contexts: [128, 1024], rounds: 4, tokensPerRound: 10, prefills: 1, packedRounds: 20, qwenRounds: 3 }

type EngineProcess = WorkerProcess<EngineRequest, EngineReply>

/** Measures both engines, model by model. */
export async function measureEngine(models: Models, effort: Effort, context: BenchContext) {
  await using folder = await tempFolder('bench')
  const runs: EngineRun[] = []
  await benchSmall(models.small, join(folder.path, 'small'), effort, runs, context)
  const onnxruntime = await benchQwen(models.qwen, join(folder.path, 'qwen'), effort, runs, context)
  const ort = { onnxruntime, provider: 'CPUExecutionProvider', threads, seed, spinning: false }
  return { conditions: { ...ort, small: models.small, packed, warmUp, effort }, runs }
}

async function startEngine(style: Style, bundle: string, { io }: BenchContext): Promise<EngineProcess> {
  const engine: EngineProcess = new WorkerProcess(new URL('./worker.js', import.meta.url), io)
  await engine.ask({ kind: 'open', style, bundle, threads, library: io.env.ORT_LIB })
  return engine
}

/** Asks an engine, and adds its samples to those of the same measurement. @returns the version of ONNX Runtime */
async function sample(
  engine: EngineProcess,
  request: Exclude<EngineRequest, { kind: 'open' }>,
  what: Pick<EngineRun, 'model' | 'format' | 'style'>,
  runs: EngineRun[],
): Promise<string> {
  const { onnxruntime, samples } = await engine.ask(request)
  for (const { samplesMs, ...measured } of samples) {
    const of = { ...what, context: request.context, ...measured }
    const before = runs.find((run) => Object.entries(of).every(([name, value]) => run[name as keyof EngineRun] === value))
    if (before) before.samplesMs.push(...samplesMs)
    else runs.push({ ...of, samplesMs })
  }
  return onnxruntime
}

async function benchSmall(
  config: Models['small'],
  folder: string,
  effort: Effort,
  runs: EngineRun[],
  context: BenchContext,
): Promise<void> {
  const checkpoint = join(folder, 'checkpoint')
  await writeRandomCheckpoint(checkpoint, { config, dtype: 'F16', seed })
  const bundles = new Map<Format, string>()
  for (const format of formats) {
    context.progress(`building the small model in ${format}`)
    bundles.set(format, (await buildBundle({ checkpoint, out: join(folder, format), format, signal: context.io.signal })).dir)
  }
  for (const format of formats) {
    await using inPlace = await startEngine('in-place', bundles.get(format) ?? '', context)
    // fp16 is a format on disk: the computation is the same, and the stock binding can only read the fp32 bundle.
    const readable = bundles.get(format === 'fp16' ? 'fp32' : format) ?? ''
    await using copying = await startEngine('copying', readable, context)
    await using growing = await startEngine('growing', readable, context)
    const engines = Object.entries({ 'in-place': inPlace, copying, growing }) as [Style, EngineProcess][]
    const inTurn = async (rounds: number, request: Parameters<typeof sample>[1]) => {
      for (let round = 0; round < rounds; round++)
        for (const [style, engine] of engines) await sample(engine, request, { model: 'small', format, style }, runs)
    }
    for (const length of effort.contexts) {
      context.progress(`${format}, context ${length}: decode and prefill, styles in turn`)
      await inTurn(effort.rounds, { kind: 'decode', context: length, tokens: effort.tokensPerRound, warmUp })
      await inTurn(effort.prefills, { kind: 'prefill', context: length })
    }
    if (format === 'fp16') continue
    context.progress(`${format}: ${packed.sequences} sequences in one packed step and in ${packed.sequences} steps`)
    await inPlace.ask({ kind: 'packed', ...packed, rounds: 3 })
    const together = { kind: 'packed', ...packed, rounds: effort.packedRounds } as const
    await sample(inPlace, together, { model: 'small', format, style: 'in-place' }, runs)
  }
}

/** @returns the version of ONNX Runtime */
async function benchQwen(
  config: Models['qwen'],
  folder: string,
  effort: Effort,
  runs: EngineRun[],
  context: BenchContext,
): Promise<string> {
  const what = { model: 'qwen2.5-0.5b-shaped', format: 'int4', style: 'in-place' } as const
  const [checkpoint, out] = [join(folder, 'checkpoint'), join(folder, 'bundle')]
  context.progress('writing a random checkpoint with the shape of Qwen2.5-0.5B')
  await writeRandomCheckpoint(checkpoint, { config, dtype: 'BF16', seed })
  context.progress('building it in int4')
  const startMs = performance.now()
  await buildBundle({ checkpoint, out, format: 'int4', signal: context.io.signal })
  runs.push({ ...what, measured: 'build', context: 0, tokens: 0, samplesMs: [performance.now() - startMs] })
  context.progress(`decoding with it, context ${qwenContext}`)
  await using engine = await startEngine('in-place', out, context)
  let onnxruntime = ''
  for (let round = 0; round < effort.qwenRounds; round++) {
    await sample(engine, { kind: 'decode', context: qwenContext, tokens: effort.tokensPerRound, warmUp }, what, runs)
    onnxruntime = await sample(engine, { kind: 'prefill', context: qwenContext }, what, runs)
  }
  return onnxruntime
}
