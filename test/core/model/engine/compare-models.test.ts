import { beforeAll, expect, it } from 'vitest'
import { compareModels } from '../../../../core/model/engine/compare-models.ts'
import type { Chain } from '../../../../core/model/engine/contract.ts'
import { logprobsOf } from '../../../../core/model/engine/logprobs.ts'
import { tinyLlamaConfig } from '../../../../lab/random-checkpoint.ts'
import { shared } from '../../../support/shared.ts'
import { someIds, workshop } from './models.ts'

const bench = shared(() => workshop({ ...tinyLlamaConfig, num_hidden_layers: 2, max_position_embeddings: 512 }))
const exact = shared(async () => (await bench.open({ format: 'fp32' })).chain({ cuts: 'full' }))
const rounded = shared(async () => (await bench.open({ format: 'int4', split: 1 })).chain({ cuts: 'full' }))
let texts: number[][]
beforeAll(async () => {
  // The second has more rows than one step computes.
  texts = [someIds(exact.manifest, 7), someIds(exact.manifest, 400, 2), someIds(exact.manifest, 1, 3)]
})

const compare = (first: Chain, second: Chain, signal = new AbortController().signal, onProgress = (_: number) => {}) =>
  compareModels([first, second], texts, { signal, onProgress })

/** The natural log probabilities of all tokens after each position, computed in one step. [ids.length - 1][vocab] */
async function logsOf(chain: Chain, ids: readonly number[]): Promise<number[][]> {
  const { vocab } = chain.manifest.dims
  const sequence = chain.createSequence()
  const logits = (await chain.step([{ sequence, ids, select: 'all' }])).slice()
  sequence.release()
  return ids.slice(1).map((_, row) => {
    const scored = logprobsOf(logits.subarray(row * vocab, (row + 1) * vocab), 0, vocab).top
    return scored.toSorted((a, b) => a.token - b.token).map(({ logprob }) => logprob)
  })
}

it('finds no difference between a model and itself', async () => {
  const { perplexities, topAgreement, divergence, tokens } = await compare(exact, exact)
  expect(perplexities[1]).toBe(perplexities[0])
  expect({ topAgreement, divergence, tokens }).toEqual({ topAgreement: 1, divergence: 0, tokens: 6 + 399 })
})

it('has perplexity, agreement and divergence of the distributions after every token', async () => {
  const sums = { first: 0, second: 0, agreed: 0, divergence: 0, tokens: 0 }
  const best = (logs: readonly number[]) => logs.indexOf(Math.max(...logs))
  for (const ids of texts) {
    const [first, second] = [await logsOf(exact, ids), await logsOf(rounded, ids)]
    for (const [at, own] of first.entries()) {
      const other = second[at]!
      sums.tokens++
      sums.first -= own[ids[at + 1]!]!
      sums.second -= other[ids[at + 1]!]!
      sums.agreed += best(own) === best(other) ? 1 : 0
      sums.divergence += own.reduce((sum, log, id) => sum + Math.exp(log) * (log - other[id]!), 0)
    }
  }
  const found = await compare(exact, rounded)
  expect(found.tokens).toBe(sums.tokens)
  expect(found.perplexities[0]).toBeCloseTo(Math.exp(sums.first / sums.tokens), 2)
  expect(found.perplexities[1]).toBeCloseTo(Math.exp(sums.second / sums.tokens), 2)
  expect(found.topAgreement).toBeCloseTo(sums.agreed / sums.tokens, 2)
  expect(found.divergence).toBeGreaterThan(1e-4)
  expect(found.divergence).toBeCloseTo(sums.divergence / sums.tokens, 4)
})

it('reports its progress, and stops at the signal', async () => {
  const shares: number[] = []
  const cancel = new AbortController()
  const running = compare(exact, rounded, cancel.signal, (share) => {
    shares.push(share)
    if (shares.length === 2) cancel.abort(new Error('enough'))
  })
  await expect(running).rejects.toThrow('enough')
  expect(shares).toEqual([6 / 405, 262 / 405])
})
