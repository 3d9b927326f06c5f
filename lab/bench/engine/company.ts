import type { Chain } from '../../../core/model/engine/contract.ts'
import { choiceGap, greedy, nearTie } from '../../../core/model/engine/sampler.ts'

/** The sizes of a stream's steps, again and again. */
export interface StreamSteps {
  readonly sizes: readonly number[]
}

/** @returns the logits of every row, [ids, vocab], each computed in a step of its own */
export async function decodeAlone(chain: Chain, ids: readonly number[]): Promise<Float32Array> {
  const { vocab } = chain.manifest.dims
  const logits = new Float32Array(ids.length * vocab)
  const sequence = chain.createSequence()
  for (const [at, id] of ids.entries()) logits.set(await chain.step([{ sequence, ids: [id], select: 'all' }]), at * vocab)
  sequence.release()
  return logits
}

/** Rows of one stream of one step, from position `from` on: logits, [rows, vocab]. */
interface StreamRows {
  readonly stream: number
  readonly from: number
  readonly logits: Float32Array
}

/** Computes the same ids in every stream, in packed steps in which each stream takes its own number of rows. */
export async function stepTogether(chain: Chain, ids: readonly number[], streams: readonly StreamSteps[]): Promise<StreamRows[]> {
  const { vocab } = chain.manifest.dims
  const sequences = streams.map(() => chain.createSequence())
  const results: StreamRows[] = []
  for (let step = 0; sequences.some((sequence) => sequence.length < ids.length); step++) {
    const work = sequences.flatMap((sequence, stream) => {
      const { sizes } = streams[stream]!
      const from = sequence.length
      const own = ids.slice(from, from + sizes[step % sizes.length]!)
      return own.length === 0 ? [] : [{ stream, from, item: { sequence, ids: own, select: 'all' as const } }]
    })
    const rows = await chain.step(work.map(({ item }) => item))
    let at = 0
    for (const { stream, from, item } of work) {
      const end = at + item.ids.length * vocab
      results.push({ stream, from, logits: rows.slice(at, end) })
      at = end
    }
  }
  for (const sequence of sequences) sequence.release()
  return results
}

/** Whether rows depend on their company: on the other rows of their step. */
export interface CompanyCounts {
  readonly rows: number
  /** Rows of which a logit has other bits than in a step of its own. */
  readonly rowsDiffering: number
  /** Rows whose likeliest token is another one, by more than a near tie, and those where it is nearly tied. */
  readonly tokensDiffering: number
  readonly nearTies: number
  /** Of two logits. */
  readonly largestDifference: number
}

export async function measureCompany(
  chain: Chain,
  ids: readonly number[],
  expected: Float32Array,
  streams: readonly StreamSteps[],
): Promise<CompanyCounts> {
  const { vocab } = chain.manifest.dims
  const counts = { rows: 0, rowsDiffering: 0, tokensDiffering: 0, nearTies: 0, largestDifference: 0 }
  for (const { from, logits } of await stepTogether(chain, ids, streams))
    for (let at = 0; at < logits.length; at += vocab) {
      const own = logits.subarray(at, at + vocab)
      const alone = expected.subarray(from * vocab + at, from * vocab + at + vocab)
      const difference = own.reduce((largest, value, i) => Math.max(largest, Math.abs(value - alone[i]!)), 0)
      const gap = choiceGap(alone, greedy, from, own.indexOf(Math.max(...own)))
      counts.rows++
      if (difference > 0) counts.rowsDiffering++
      if (gap >= nearTie) counts.tokensDiffering++
      else if (gap > 0) counts.nearTies++
      counts.largestDifference = Math.max(counts.largestDifference, difference)
    }
  return counts
}
