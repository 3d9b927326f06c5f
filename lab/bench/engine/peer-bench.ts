import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { nonEmpty } from '../../../core/kit/base/setting-kinds.ts'
import { tempFolder } from '../../../core/kit/base/temp-folder.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import { WorkerProcess } from '../../cluster/worker-process.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import { barPanel } from '../../frame/panels.ts'
import { select } from '../../frame/runs.ts'
import { type FigureTable, tabledBench } from '../../frame/tabled-bench.ts'
import { LlamaCpp } from './llama-cpp.ts'
import { promptIds } from './prompt.ts'
import type { EngineReply, EngineRequest } from './worker.ts'

const engines = ['brim', 'llamacpp'] as const
type EngineName = (typeof engines)[number]

/** The samples of one measurement, or the memory at the end. */
export type PeerRun =
  | {
      readonly engine: EngineName
      readonly measured: 'prefill' | 'decode'
      readonly context: number
      /** Of one token. */
      readonly samplesMs: number[]
    }
  | { readonly engine: EngineName; readonly measured: 'memory'; readonly bytes: number }

type Runs = readonly PeerRun[]

const options = {
  vs: z.enum(['llamacpp']).optional().meta({
    description: 'measures our engine beside this one, in turn, with the model of --gguf',
    fallback: 'our engine against the stock binding',
  }),
  gguf: nonEmpty.optional().meta({ description: 'GGUF file that both compute, such as one in Q4_0', fallback: 'none' }),
  llamaServer: nonEmpty.default('llama-server').describe("llama.cpp's server, a program"),
}
type PeerOptions = z.output<z.ZodObject<typeof options>>

const msOf = (runs: Runs, engine: EngineName, measured: PeerRun['measured'], context: number) => {
  const [run] = select(runs, { engine, measured, context } as Partial<PeerRun>)
  return run && 'samplesMs' in run ? median(run.samplesMs) : undefined
}

/** Tokens per second of ours over theirs. */
const speedOver = (measured: 'prefill' | 'decode', context: number) => (runs: Runs) => {
  const [own, other] = engines.map((engine) => msOf(runs, engine, measured, context))
  return own === undefined || other === undefined ? undefined : other / own
}

const memoryOf = (engine: EngineName) => (runs: Runs) => {
  const run = runs.find((each) => each.engine === engine && each.measured === 'memory')
  return run && 'bytes' in run ? run.bytes / 2 ** 20 : null
}

const figures: FigureTable<PeerRun> = {
  prefill128OverLlamacpp: [speedOver('prefill', 128), { min: 0.8 }],
  prefill1024OverLlamacpp: [speedOver('prefill', 1_024), { min: 0.8 }],
  decode128OverLlamacpp: [speedOver('decode', 128), { min: 0.9 }],
  decode1024OverLlamacpp: [speedOver('decode', 1_024), { min: 0.9 }],
  memoryMb: [memoryOf('brim')],
  memoryMbLlamacpp: [memoryOf('llamacpp')],
}

/** `brim bench engine --vs llamacpp` */
export const peerBench = tabledBench<PeerRun, typeof options>({
  name: 'peers',
  commandLine: 'brim bench engine',
  title: 'Our engine beside llama.cpp',
  contents: 'every sample',
  figureText: 'Tokens per second',
  quickLimit: '2 minutes',
  quickRepetitions: 1,
  options,
  examples: [
    ['brim bench engine --vs llamacpp --gguf model-q4_0.gguf --quick', 'prefill, decode and memory beside llama.cpp, in turn'],
  ],
  figures,
  measure: (context, given) => measurePeers(context.quick ? quick : full, context, given),
  show(document) {
    const { runs, conditions } = document
    const { cpu, onnxruntime, model, threads } = conditions
    const speeds = runs.flatMap((run) =>
      'samplesMs' in run ? [[`${run.measured} ${run.context}`, run.engine, 1_000 / median(run.samplesMs)] as const] : [],
    )
    return {
      figure: {
        title: 'Our engine beside llama.cpp',
        subtitle: `${model}; medians of turns; ${threads} threads on ${cpu}; ONNX Runtime ${onnxruntime}`,
        columns: 1,
        panels: [barPanel('Tokens per second', 'tokens/s', speeds)],
      },
      conditions: `${threads} threads on ${cpu}; ONNX Runtime ${onnxruntime}; ${model}. ${loadText(document)}`,
    }
  },
})

export interface PeerEffort {
  readonly contexts: readonly number[]
  readonly rounds: number
  readonly tokensPerRound: number
}

const full: PeerEffort = { contexts: [128, 1_024], rounds: 10, tokensPerRound: 32 }
const quick: PeerEffort = { contexts: [128, 1_024], rounds: 3, tokensPerRound: 16 }

const threads = 2
const warmUp = 2

export async function measurePeers(effort: PeerEffort, context: BenchContext, { gguf, llamaServer }: PeerOptions) {
  if (gguf === undefined)
    throw new BrimError('USAGE', '--vs needs a model that both engines read', { hint: 'name a GGUF file with --gguf' })
  const { io, progress } = context
  await using folder = await tempFolder('bench')
  progress(`building ${gguf}`)
  const { dir, manifest } = await buildBundle({ checkpoint: gguf, out: join(folder.path, 'bundle'), signal: io.signal })
  const longest = Math.max(...effort.contexts) + effort.tokensPerRound + warmUp
  await using peer = await LlamaCpp.start({ program: llamaServer, gguf, threads, context: longest + 1 }, io)
  await using own: WorkerProcess<EngineRequest, EngineReply> = new WorkerProcess(new URL('./worker.js', import.meta.url), io)
  await own.ask({ kind: 'open', style: 'in-place', bundle: dir, threads, library: io.env.ORT_LIB })
  const runs: PeerRun[] = []
  const add = (engine: EngineName, measured: 'prefill' | 'decode', at: number, samplesMs: readonly number[]) => {
    const before = runs.find(
      (run) => run.engine === engine && run.measured === measured && 'context' in run && run.context === at,
    )
    if (before && 'samplesMs' in before) before.samplesMs.push(...samplesMs)
    else runs.push({ engine, measured, context: at, samplesMs: [...samplesMs] })
  }
  let onnxruntime = ''
  for (let round = 0; round < effort.rounds; round++)
    for (const at of effort.contexts) {
      progress(`round ${round + 1} of ${effort.rounds}, context ${at}: both engines in turn`)
      const ids = promptIds(at, manifest.dims.vocab)
      for (const request of [
        { kind: 'prefill', context: at },
        { kind: 'decode', context: at, tokens: effort.tokensPerRound, warmUp },
      ] as const) {
        const { samples, onnxruntime: version } = await own.ask(request)
        onnxruntime = version
        for (const { measured, tokens, samplesMs } of samples)
          if (measured === 'prefill' || measured === 'decode')
            add(
              'brim',
              measured,
              at,
              samplesMs.map((ms) => ms / tokens),
            )
      }
      add('llamacpp', 'prefill', at, [(await peer.prefill(ids)) / at])
      add('llamacpp', 'decode', at, [(await peer.decode(ids, effort.tokensPerRound)).ms])
    }
  const { memoryBytes } = await own.ask({ kind: 'decode', context: effort.contexts[0]!, tokens: 1, warmUp: 0 })
  const peerBytes = await peer.memoryBytes()
  if (memoryBytes !== undefined) runs.push({ engine: 'brim', measured: 'memory', bytes: memoryBytes })
  if (peerBytes !== undefined) runs.push({ engine: 'llamacpp', measured: 'memory', bytes: peerBytes })
  const model = `${manifest.card.name}, ${((await stat(gguf)).size / 2 ** 20).toFixed(0)} MB`
  return { conditions: { onnxruntime, model, format: manifest.format, threads, warmUp, effort }, runs }
}
