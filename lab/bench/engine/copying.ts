import { join } from 'node:path'
import { env, InferenceSession, Tensor } from 'onnxruntime-node'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { graphInputs, kvNames } from '../../../core/model/bundle/graph-io.ts'
import { packItems } from '../../../core/model/engine/part-packing.ts'
import { promptIds } from './prompt.ts'

type Tensors = Record<string, Tensor>

export type CopyingEngine = Awaited<ReturnType<typeof openCopyingEngine>>

/**
 * The stock binding, which copies every output into JavaScript; its present KV becomes the next past.
 * @param bundle whole, fp32 or int4: the binding cannot expand fp16 weights
 * @param style `copying`: KV buffers for the longest context, as the graph declares them and our engine uses them. `growing`:
 * KV only as long as the context, which is less to copy; the library accepts it although the graph declares other shapes.
 */
export async function openCopyingEngine(bundle: string, threads: number, style: 'copying' | 'growing') {
  const { parts, dims } = await readManifest(bundle)
  if (!parts.whole) throw new Error(`${bundle} is split`)
  const session = await InferenceSession.create(join(bundle, parts.whole.graphs['1'] ?? ''), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionProviders: ['cpu'],
    logSeverityLevel: 3,
    // As in our engine. With spinning, this engine's own threads would slow it down.
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  })
  const buffers = Array.from({ length: dims.layers }, (_, layer) => kvNames(0, layer)).flatMap((names) => [
    { past: names.pastKey, present: names.presentKey },
    { past: names.pastValue, present: names.presentValue },
  ])
  const empty = (): Tensors => {
    const shape = [1, dims.kvHeads, style === 'copying' ? dims.contextLimit : 0, dims.headDim]
    const size = shape.reduce((product, dim) => product * dim, 1)
    return Object.fromEntries(buffers.map(({ past }) => [past, new Tensor('float32', new Float32Array(size), shape)]))
  }
  /** @returns the KV after these tokens. Attention reads each row once: rows are not padded as in our engine (ADR 0012). */
  const run = async (kv: Tensors, length: number, ids: readonly number[]): Promise<Tensors> => {
    const { spread, keep, seqlens, totals, select } = packItems([{ rows: ids.length, past: length, select: 'last' }], 1)
    const int64 = (values: BigInt64Array) => new Tensor('int64', values, [values.length])
    const results = await session.run({
      [graphInputs.ids]: new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]),
      [graphInputs.spread]: int64(spread),
      [graphInputs.keep]: int64(keep),
      [graphInputs.seqlens]: new Tensor('int32', seqlens, [1]),
      [graphInputs.totals]: new Tensor('int32', totals, [1]),
      [graphInputs.select]: int64(select),
      ...kv,
    })
    return Object.fromEntries(buffers.map(({ past, present }) => [past, results[present] as Tensor]))
  }
  const filled = new Map<number, Tensors>()
  return {
    onnxruntime: env.versions.node ?? 'unknown',
    async prefill(tokens: number): Promise<number> {
      const kv = empty()
      const startMs = performance.now()
      await run(kv, 0, promptIds(tokens, dims.vocab))
      return performance.now() - startMs
    },
    async decode(context: number, tokens: number): Promise<number[]> {
      let kv = filled.get(context) ?? (await run(empty(), 0, promptIds(context, dims.vocab)))
      filled.set(context, kv)
      const samples: number[] = []
      for (let i = 0; i < tokens; i++) {
        const startMs = performance.now()
        kv = await run(kv, context + i, [i + 3])
        samples.push(performance.now() - startMs)
      }
      return samples
    },
  }
}
