import { median } from '../../../core/base/statistics.ts'
import { openBundle } from '../../../core/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/engine/open-model.ts'
import { compareWithReference } from '../../../core/engine/reference.ts'
import { greedy } from '../../../core/engine/sampler.ts'
import type { Taken } from './load.ts'

/** The whole model in this process, on one thread. */
export interface HatReference extends AsyncDisposable {
  /** One row through the output part, ms. */
  headMs(): Promise<number>
  /** Holds answers against the reference, each distinct one once, and notes the outcome in their samples. */
  check(taken: readonly Taken[], progress: (line: string) => void): Promise<void>
}

export async function openHatReference(bundle: string, library: string | undefined): Promise<HatReference> {
  const model = await openBundle(bundle, { library, parts: 'chain', threads: 1 })
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
    [Symbol.asyncDispose]: () => model.release(),
  }
}

async function timeHead(model: LoadedModel): Promise<number> {
  const head = model.head()
  const width = model.manifest.dims.hidden
  const row = { rows: 1, width, half: new Uint16Array(width) }
  const samples: number[] = []
  for (let i = 0; i < 20; i++) {
    const startedMs = performance.now()
    await head.logits(row)
    samples.push(performance.now() - startedMs)
  }
  return median(samples)
}
