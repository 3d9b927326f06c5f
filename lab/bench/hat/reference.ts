import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { compareWithReference } from '../../../core/model/engine/reference.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import type { UncheckedAnswer } from './load.ts'

/** The whole model in this process, on one thread: it checks answers. */
export async function openHatReference(bundle: string, library: string | undefined) {
  const model = await openBundle(bundle, { library, parts: 'chain', threads: 1 })
  const chain = model.chain({ cuts: 'half' })
  return {
    /** Time of one row through the output part, in ms. */
    headMs: () => timeHead(model),
    /** Compares each distinct answer with the reference once, and records the result in its samples. */
    async check(answers: readonly UncheckedAnswer[], progress: (line: string) => void): Promise<void> {
      const distinct = new Map<string, UncheckedAnswer[]>()
      for (const answer of answers) {
        const key = `${answer.prompt.ids} ${answer.tokenIds}`
        distinct.set(key, [...(distinct.get(key) ?? []), answer])
      }
      let checked = 0
      for (const same of distinct.values()) {
        if (checked % 10 === 0) progress(`reference: answer ${checked + 1} of ${distinct.size}`)
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
