import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import type { Format } from '../../../core/model/bundle/manifest.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { qwen05bConfig, writeRandomCheckpoint } from '../../random-checkpoint.ts'
import { type EngineProcess, type Style, startEngine } from './process.ts'
import { type EngineRun, engineReport, summarise } from './report.ts'

export const engineBench: Bench = {
  name: 'engine',
  quickLimit: '2 minutes',
  quickRepetitions: 2,
  options: {},
  examples: [],
  goals: {
    inPlaceOverCopyingFp32: { min: 2 },
    inPlaceOverCopyingInt4: { min: 3 },
    packed8OverSeparateInt4: { min: 1.6 },
    packed8OverSeparateFp32: { min: 3.5 },
    qwenDecodeTokensPerS: { min: 40 },
    qwenBuildS: { max: 60 },
  },
  run: (context) => benchEngine({ small, qwen }, context.quick ? quick : full, context),
  report: engineReport,
}

/** `brim bench engine` */
export const command = benchCommand(engineBench)

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

const styles: readonly Style[] = ['in-place', 'copying', 'growing']
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

/** Measures both engines, model by model. */
export async function benchEngine(models: Models, effort: Effort, context: BenchContext): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), 'brim-bench-'))
  const runs: EngineRun[] = []
  try {
    const onnxruntime = await benchSmall(models.small, join(folder, 'small'), effort, runs, context)
    await benchQwen(models.qwen, join(folder, 'qwen'), effort, runs, context)
    const conditions = {
      onnxruntime,
      provider: 'CPUExecutionProvider',
      threads,
      seed,
      spinning: false,
      small: models.small,
      packed,
      warmUp,
      effort,
    }
    return { conditions, summary: summarise(runs), runs }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function benchSmall(
  config: Models['small'],
  folder: string,
  effort: Effort,
  runs: EngineRun[],
  context: BenchContext,
): Promise<string> {
  const checkpoint = join(folder, 'checkpoint')
  await writeRandomCheckpoint(checkpoint, { config, dtype: 'F16', seed })
  const bundles = new Map<Format, string>()
  for (const format of formats) {
    context.progress(`building the small model in ${format}`)
    bundles.set(format, (await buildBundle({ checkpoint, out: join(folder, format), format, signal: context.io.signal })).dir)
  }
  let onnxruntime = ''
  for (const format of formats) {
    await using inPlace = await startEngine('in-place', bundles.get(format) ?? '', threads, context.io)
    // fp16 is a format on disk: the computation is the same, and the stock binding can only read the fp32 bundle.
    const readable = format === 'fp16' ? 'fp32' : format
    await using copying = await startEngine('copying', bundles.get(readable) ?? '', threads, context.io)
    await using growing = await startEngine('growing', bundles.get(readable) ?? '', threads, context.io)
    onnxruntime = inPlace.onnxruntime
    for (const length of effort.contexts) {
      context.progress(`${format}, context ${length}: decode and prefill, styles in turn`)
      await benchLength({ 'in-place': inPlace, copying, growing }, format, length, effort, runs)
    }
    if (format === 'fp16') continue
    context.progress(`${format}: ${packed.sequences} sequences in one packed step and in ${packed.sequences} steps`)
    await benchPacked(inPlace, format, effort, runs)
  }
  return onnxruntime
}

async function benchLength(
  engines: Record<Style, EngineProcess>,
  format: Format,
  length: number,
  effort: Effort,
  runs: EngineRun[],
): Promise<void> {
  const turns = styles.map((style) => {
    const what = { model: 'small', format, style, context: length } as const
    const decode: EngineRun = { ...what, measured: 'decode', tokens: 1, samplesMs: [] }
    const prefill: EngineRun = { ...what, measured: 'prefill', tokens: length, samplesMs: [] }
    runs.push(decode, prefill)
    return { engine: engines[style], decode, prefill }
  })
  const turn = { kind: 'decode', context: length, tokens: warmUp + effort.tokensPerRound } as const
  for (let round = 0; round < effort.rounds; round++)
    for (const { engine, decode } of turns) decode.samplesMs.push(...((await engine.ask(turn)).ms ?? []).slice(warmUp))
  for (let round = 0; round < effort.prefills; round++)
    for (const { engine, prefill } of turns)
      prefill.samplesMs.push(...((await engine.ask({ kind: 'prefill', tokens: length })).ms ?? []))
}

async function benchPacked(engine: EngineProcess, format: Format, effort: Effort, runs: EngineRun[]): Promise<void> {
  const what = { model: 'small', format, style: 'in-place', context: packed.context, tokens: packed.sequences } as const
  const together: EngineRun = { ...what, measured: 'packed', samplesMs: [] }
  const apart: EngineRun = { ...what, measured: 'separate', samplesMs: [] }
  runs.push(together, apart)
  await engine.ask({ kind: 'packed', ...packed, rounds: 3 })
  const { packedMs = [], separateMs = [] } = await engine.ask({ kind: 'packed', ...packed, rounds: effort.packedRounds })
  together.samplesMs.push(...packedMs)
  apart.samplesMs.push(...separateMs)
}

async function benchQwen(
  config: Models['qwen'],
  folder: string,
  effort: Effort,
  runs: EngineRun[],
  context: BenchContext,
): Promise<void> {
  const what = { model: 'qwen2.5-0.5b-shaped', format: 'int4', style: 'in-place', context: qwenContext } as const
  const [checkpoint, out] = [join(folder, 'checkpoint'), join(folder, 'bundle')]
  context.progress('writing a random checkpoint with the shape of Qwen2.5-0.5B')
  await writeRandomCheckpoint(checkpoint, { config, dtype: 'BF16', seed })
  context.progress('building it in int4')
  const startMs = performance.now()
  await buildBundle({ checkpoint, out, format: 'int4', signal: context.io.signal })
  runs.push({ ...what, measured: 'build', context: 0, tokens: 0, samplesMs: [performance.now() - startMs] })
  context.progress(`decoding with it, context ${qwenContext}`)
  await using engine = await startEngine('in-place', out, threads, context.io)
  const decode: EngineRun = { ...what, measured: 'decode', tokens: 1, samplesMs: [] }
  const prefill: EngineRun = { ...what, measured: 'prefill', tokens: qwenContext, samplesMs: [] }
  runs.push(decode, prefill)
  const turn = { kind: 'decode', context: qwenContext, tokens: warmUp + effort.tokensPerRound } as const
  for (let round = 0; round < effort.qwenRounds; round++) {
    decode.samplesMs.push(...((await engine.ask(turn)).ms ?? []).slice(warmUp))
    prefill.samplesMs.push(...((await engine.ask({ kind: 'prefill', tokens: qwenContext })).ms ?? []))
  }
}
