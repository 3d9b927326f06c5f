import { openRuntime, type RuntimeOptions } from '../../../core/model/engine/capi.ts'
import type { Sequence } from '../../../core/model/engine/contract.ts'
import { openModel } from '../../../core/model/engine/open-model.ts'
import { promptIds } from './prompt.ts'

export type InPlaceEngine = Awaited<ReturnType<typeof openInPlaceEngine>>

/** Our engine: KV in place, packed steps. */
export async function openInPlaceEngine(bundle: string, threads: number, options: RuntimeOptions) {
  const residentBefore = process.memoryUsage.rss()
  const runtime = await openRuntime(options)
  const model = await openModel(runtime, bundle, { parts: 'chain', threads, slots: [1, 8] })
  const chain = model.chain({ cuts: 'full' })
  const filled = new Map<string, Sequence>()
  const at = async (context: number, which: number) => {
    const key = `${context}.${which}`
    const sequence = filled.get(key) ?? chain.createSequence()
    filled.set(key, sequence)
    if (sequence.length < context)
      await chain.step([{ sequence, ids: promptIds(context, chain.manifest.dims.vocab), select: 'none' }])
    sequence.truncate(context)
    return sequence
  }
  const timed = async (sequences: readonly Sequence[], ids: readonly number[]) => {
    const startMs = performance.now()
    await chain.step(sequences.map((sequence) => ({ sequence, ids, select: 'last' as const })))
    return performance.now() - startMs
  }
  return {
    onnxruntime: runtime.info.version,
    /** Bytes of memory of this process that the engine takes now. */
    memoryBytes: () => process.memoryUsage.rss() - residentBefore,
    /** @returns ms of one step with a prompt of `tokens` tokens */
    async prefill(tokens: number): Promise<number> {
      const sequence = chain.createSequence()
      const ms = await timed([sequence], promptIds(tokens, chain.manifest.dims.vocab))
      sequence.release()
      return ms
    },
    /** @returns ms of each of `tokens` steps of one token, from this context on */
    async decode(context: number, tokens: number): Promise<number[]> {
      const sequence = await at(context, 0)
      const samples: number[] = []
      for (let i = 0; i < tokens; i++) samples.push(await timed([sequence], [i + 3]))
      return samples
    },
    /** One token for each sequence, in turn in one packed step and in one step per sequence. */
    async packed(context: number, count: number, rounds: number) {
      const refill = async () => {
        const sequences: Sequence[] = []
        for (let which = 0; which < count; which++) sequences.push(await at(context, which))
        return sequences
      }
      const samples = { packedMs: [] as number[], separateMs: [] as number[] }
      for (let round = 0; round < rounds; round++) {
        samples.packedMs.push(await timed(await refill(), [3]))
        let separateMs = 0
        for (const sequence of await refill()) separateMs += await timed([sequence], [3])
        samples.separateMs.push(separateMs)
      }
      return samples
    },
  }
}
