import { join } from 'node:path'
import { env, InferenceSession, Tensor } from 'onnxruntime-node'
import { readManifest } from '../core/model/bundle.ts'
import { graphInputs, kvNames } from '../core/model/graph-io.ts'
import { promptIds } from './bench-engine-prompt.ts'

/** The stock binding as its examples use it: what comes out as `present` goes in as the next `past`. */
export interface CopyingEngine {
  readonly onnxruntime: string
  prefill(tokens: number): Promise<number>
  decode(context: number, tokens: number): Promise<number[]>
}

type Feeds = Record<string, Tensor>

/** @param bundle whole, fp32 or int4: the binding cannot expand fp16 weights */
export async function openCopyingEngine(bundle: string, threads: number): Promise<CopyingEngine> {
  const { parts, dims } = await readManifest(bundle)
  if (!parts.whole) throw new Error(`${bundle} is split`)
  const session = await InferenceSession.create(join(bundle, parts.whole.graphs['1'] ?? ''), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionProviders: ['cpu'],
    logSeverityLevel: 3,
    // As in our engine: without it this engine's own threads wait for the next run by spinning, which costs it more.
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  })
  const layers = Array.from({ length: dims.layers }, (_, layer) => kvNames(0, layer))
  const empty: Feeds = {}
  for (const { pastKey, pastValue } of layers)
    for (const name of [pastKey, pastValue])
      empty[name] = new Tensor('float32', new Float32Array(0), [1, dims.kvHeads, 0, dims.headDim])

  /** @returns the KV after these tokens */
  const run = async (past: Feeds, length: number, ids: readonly number[]): Promise<Feeds> => {
    const total = length + ids.length
    const results = await session.run({
      [graphInputs.ids]: new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]),
      [graphInputs.seqlens]: new Tensor('int32', Int32Array.of(total - 1), [1]),
      [graphInputs.totals]: new Tensor('int32', Int32Array.of(total), [1]),
      [graphInputs.select]: new Tensor('int64', BigInt64Array.of(BigInt(ids.length - 1)), [1]),
      ...past,
    })
    const next: Feeds = {}
    for (const { pastKey, pastValue, presentKey, presentValue } of layers) {
      next[pastKey] = results[presentKey] as Tensor
      next[pastValue] = results[presentValue] as Tensor
    }
    return next
  }
  const filled = new Map<number, Feeds>()
  return {
    onnxruntime: env.versions.node ?? 'unknown',
    async prefill(tokens) {
      const startMs = performance.now()
      await run(empty, 0, promptIds(tokens, dims.vocab))
      return performance.now() - startMs
    },
    async decode(context, tokens) {
      let past = filled.get(context) ?? (await run(empty, 0, promptIds(context, dims.vocab)))
      filled.set(context, past)
      const samples: number[] = []
      for (let i = 0; i < tokens; i++) {
        const startMs = performance.now()
        past = await run(past, context + i, [i + 3])
        samples.push(performance.now() - startMs)
      }
      return samples
    },
  }
}
