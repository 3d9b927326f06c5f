import type { Provider } from '../../../core/model/engine/provider.ts'
import { serveRequests } from '../../cluster/worker-process.ts'
import { type CopyingEngine, openCopyingEngine } from './copying.ts'
import { type InPlaceEngine, openInPlaceEngine } from './in-place.ts'
import type { EngineRun, Style } from './report.ts'

/** To an engine in a process of its own: engines share neither memory nor garbage collection. The first one opens it. */
export type EngineRequest =
  | {
      readonly kind: 'open'
      readonly style: Style
      readonly bundle: string
      readonly threads: number
      readonly library: string | undefined
      /** Of the style `in-place`. Default: the CPU. */
      readonly provider?: Provider | undefined
    }
  | { readonly kind: 'prefill'; readonly context: number }
  /** The first `warmUp` tokens are not counted. */
  | { readonly kind: 'decode'; readonly context: number; readonly tokens: number; readonly warmUp: number }
  | { readonly kind: 'packed'; readonly context: number; readonly sequences: number; readonly rounds: number }

export interface EngineReply {
  readonly onnxruntime: string
  readonly samples: readonly Pick<EngineRun, 'measured' | 'tokens' | 'samplesMs'>[]
  /** Memory of the process that our engine takes. */
  readonly memoryBytes?: number | undefined
}

let engine: InPlaceEngine | CopyingEngine | undefined

serveRequests(async (request: EngineRequest): Promise<EngineReply> => {
  if (request.kind === 'open') {
    const { style, bundle, threads, library, provider } = request
    engine = await (style === 'in-place'
      ? openInPlaceEngine(bundle, threads, { library, provider })
      : openCopyingEngine(bundle, threads, style))
  }
  if (!engine) throw new Error('no engine is open')
  const samples = await samplesOf(engine, request)
  return { onnxruntime: engine.onnxruntime, samples, memoryBytes: 'memoryBytes' in engine ? engine.memoryBytes() : undefined }
})

async function samplesOf(engine: InPlaceEngine | CopyingEngine, request: EngineRequest): Promise<EngineReply['samples']> {
  switch (request.kind) {
    case 'open':
      return []
    case 'prefill':
      return [{ measured: 'prefill', tokens: request.context, samplesMs: [await engine.prefill(request.context)] }]
    case 'decode': {
      const samplesMs = await engine.decode(request.context, request.warmUp + request.tokens)
      return [{ measured: 'decode', tokens: 1, samplesMs: samplesMs.slice(request.warmUp) }]
    }
    case 'packed': {
      if (!('packed' in engine)) throw new Error('only the in-place engine has packed steps')
      const { packedMs, separateMs } = await engine.packed(request.context, request.sequences, request.rounds)
      return [
        { measured: 'packed', tokens: request.sequences, samplesMs: packedMs },
        { measured: 'separate', tokens: request.sequences, samplesMs: separateMs },
      ]
    }
  }
}
