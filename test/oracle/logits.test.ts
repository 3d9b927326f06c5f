import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import type { Chain } from '../../core/model/engine/contract.ts'
import { openModel } from '../../core/model/engine/open-model.ts'
import { referenceAnswer } from '../../core/model/engine/reference.ts'
import type { Runtime } from '../../core/model/engine/runtime.ts'
import { chooseToken, greedy } from '../../core/model/engine/sampler.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { fixtureDir, fixtureNames, type OracleCase, readOracle } from './fixtures.ts'

const dir = shared(tempDir)
let runtime: Runtime
beforeAll(async () => {
  runtime = await openRuntime()
})
afterAll(() => runtime.close())

describe.each(fixtureNames)('%s: the model as in transformers', (name) => {
  const { cases, vocab, smallestGap } = readOracle(name)

  it('has an oracle without near ties', () => {
    expect(smallestGap).toBeGreaterThanOrEqual(1e-3)
    expect(cases).toHaveLength(6)
    for (const { continuation } of cases) expect(continuation).toHaveLength(64)
  })

  describe.each([
    ['whole', undefined],
    ['split after layer 1', 1],
  ] as const)('%s, in fp32', (_, split) => {
    let chain: Chain
    beforeAll(async () => {
      const out = `${dir.path}/${name}-${split ?? 'whole'}`
      await buildBundle({ checkpoint: fixtureDir(name), out, format: 'fp32', ...(split === undefined ? {} : { split }) })
      chain = (await openModel(runtime, out, { parts: 'chain', threads: 1 })).chain({ cuts: 'full' })
    })

    it('returns logits within 1e-3', async () => {
      for (const oracle of cases) {
        const ids = [...oracle.promptIds, ...oracle.continuation]
        const sequence = chain.createSequence()
        const logits = await chain.step([{ sequence, ids, select: oracle.positions }])
        expect(logits).toHaveLength(oracle.positions.length * vocab)
        expect(largestDifference(logits, oracle.logits)).toBeLessThan(1e-3)
        sequence.release()
      }
    })

    it('continues each prompt with the same 64 tokens, the prompt in one step', async () => {
      for (const oracle of cases) expect(await decode(chain, oracle)).toEqual(oracle.continuation)
    })

    it('continues a prompt with the same 64 tokens, one token at a time', async () => {
      const oracle = cases[1] as OracleCase
      expect(await referenceAnswer(chain, oracle.promptIds, greedy, 64, [])).toEqual(oracle.continuation)
    })
  })
})

async function decode(chain: Chain, { promptIds, continuation }: OracleCase): Promise<number[]> {
  const sequence = chain.createSequence()
  const answer: number[] = []
  let ids = promptIds
  while (answer.length < continuation.length) {
    const logits = await chain.step([{ sequence, ids, select: 'last' }])
    const token = chooseToken(logits, greedy, promptIds.length + answer.length)
    answer.push(token)
    ids = [token]
  }
  sequence.release()
  return answer
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((largest, value, at) => Math.max(largest, Math.abs(value - (b[at] as number))), 0)
}
