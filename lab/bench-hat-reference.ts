import { median } from '../core/base/statistics.ts'
import { openBundle } from '../core/engine/open-bundle.ts'
import type { LoadedModel } from '../core/engine/open-model.ts'
import { compareWithReference } from '../core/engine/reference.ts'
import { greedy } from '../core/engine/sampler.ts'
import type { States } from '../core/protocol/states.ts'
import type { Taken } from './bench-hat-load.ts'

/** Of the packed steps: as many sequences, each with as many tokens before. */
const batch = { sequences: 16, context: 256, rounds: 40, warmUp: 4 } as const

export interface BatchTimes {
  /** Of one step with a row of every sequence, ms. */
  readonly packedMs: readonly number[]
  /** Of a step for each of them, one after the other, together, ms. */
  readonly separateMs: readonly number[]
}

/** The whole model in this process, on one thread. */
export interface HatReference extends AsyncDisposable {
  /** One row through the output part, ms. */
  headMs(): Promise<number>
  /** Holds answers against the reference, each distinct one once, and notes the outcome in their samples. */
  check(taken: readonly Taken[], progress: (line: string) => void): Promise<void>
  /** The middle part at decoding many sequences. */
  batch(): Promise<BatchTimes>
}

export async function openHatReference(bundle: string, library: string | undefined): Promise<HatReference> {
  const model = await openBundle(bundle, { library, parts: 'chain', threads: 1, slots: [1, batch.sequences] })
  const chain = model.chain({ cuts: 'half' })
  return {
    headMs: () => timeHead(model),
    async check(taken, progress) {
      const answers = new Map<string, Taken[]>()
      for (const one of taken) {
        const key = `${one.prompt.ids} ${one.tokenIds}`
        answers.set(key, [...(answers.get(key) ?? []), one])
      }
      let checked = 0
      for (const same of answers.values()) {
        if (checked % 10 === 0) progress(`reference: answer ${checked + 1} of ${answers.size}`)
        const { prompt, tokenIds } = same[0]!
        const { identical, nearTies } = await compareWithReference(chain, prompt.ids, greedy, tokenIds)
        for (const { sample } of same) Object.assign(sample, { identical, nearTies })
        checked += 1
      }
    },
    batch: () => timeBatch(model),
    [Symbol.asyncDispose]: () => model.release(),
  }
}

async function timeHead(model: LoadedModel): Promise<number> {
  const head = model.head()
  const samples: number[] = []
  for (let i = 0; i < 20; i++) {
    const startedMs = performance.now()
    await head.logits(rowsOf(1, model.manifest.dims.hidden))
    samples.push(performance.now() - startedMs)
  }
  return median(samples)
}

async function timeBatch(model: LoadedModel): Promise<BatchTimes> {
  const part = model.part('middle')
  const { hidden } = model.manifest.dims
  const sequences = Array.from({ length: batch.sequences }, () => part.createSequence())
  const row = rowsOf(1, hidden)
  const times = { packedMs: [] as number[], separateMs: [] as number[] }
  try {
    const prompt = rowsOf(batch.context, hidden)
    for (const sequence of sequences) await part.step([{ sequence, states: prompt, select: 'none' }])
    const items = sequences.map((sequence) => ({ sequence, states: row, select: 'all' as const }))
    for (let round = 0; round < batch.warmUp + batch.rounds; round++) {
      const startedMs = performance.now()
      await part.step(items)
      const packedMs = performance.now()
      for (const item of items) await part.step([item])
      const endedMs = performance.now()
      for (const sequence of sequences) sequence.truncate(batch.context)
      if (round < batch.warmUp) continue
      times.packedMs.push(packedMs - startedMs)
      times.separateMs.push(endedMs - packedMs)
    }
    return times
  } finally {
    for (const sequence of sequences) sequence.release()
  }
}

/** Ones in fp16: times do not depend on values. */
function rowsOf(rows: number, width: number): States {
  return { rows, width, half: new Uint16Array(rows * width).fill(0x3c00) }
}
