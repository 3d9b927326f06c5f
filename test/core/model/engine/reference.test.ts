import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Chain } from '../../../../core/model/engine/contract.ts'
import { openModel } from '../../../../core/model/engine/open-model.ts'
import { compareWithReference, referenceAnswer } from '../../../../core/model/engine/reference.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { greedy, type Sampling } from '../../../../core/model/engine/sampler.ts'
import { fixtureDir, type OracleCase, readOracle } from '../../../oracle/fixtures.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const prompt = (readOracle('llama').cases[2] as OracleCase).promptIds
const sampled: Sampling = { temperature: 0.8, topK: 40, topP: 0.95, seed: 9 }

const dir = shared(tempDir)
let runtime: Runtime
let half: Chain
let full: Chain
beforeAll(async () => {
  runtime = await openRuntime()
  await buildBundle({ checkpoint: fixtureDir('llama'), out: `${dir.path}/llama`, format: 'fp32', split: 1 })
  const model = await openModel(runtime, `${dir.path}/llama`, { parts: 'chain', threads: 1 })
  half = model.chain({ cuts: 'half' })
  full = model.chain({ cuts: 'full' })
})
afterAll(() => runtime.close())

describe.each([
  ['greedy', greedy],
  ['sampled', sampled],
] as const)('the reference, %s', (_, sampling) => {
  it('is identical to its own answer', async () => {
    const answer = await referenceAnswer(half, prompt, sampling, 48, [])
    expect(await compareWithReference(half, prompt, sampling, answer)).toEqual({
      identical: true,
      tokens: 48,
      agreeing: 48,
      nearTies: 0,
    })
  })

  it('names the first wrong token and compares later ones given the answer so far', async () => {
    const answer = await referenceAnswer(half, prompt, sampling, 24, [])
    const wrong = [...answer]
    wrong[10] = (wrong[10] as number) === 3 ? 4 : 3
    const tail = await referenceAnswer(half, [...prompt, ...wrong.slice(0, 11)], sampling, 13, [])
    const comparison = await compareWithReference(half, prompt, sampling, [...wrong.slice(0, 11), ...tail])
    expect(comparison).toMatchObject({ identical: false, tokens: 24, agreeing: 23, firstBug: { position: 10 } })
    expect(comparison.firstBug?.gap).toBeGreaterThan(0.01)
  })

  it('agrees with the unrounded model except for near ties', async () => {
    const answer = await referenceAnswer(half, prompt, sampling, 48, [])
    const { agreeing, tokens, nearTies } = await compareWithReference(full, prompt, sampling, answer)
    expect(agreeing + nearTies).toBe(tokens)
  })
})

describe('the reference', () => {
  it('ends with the end-of-text token', async () => {
    const answer = await referenceAnswer(half, prompt, greedy, 48, [])
    const eos = answer[5] as number
    expect(await referenceAnswer(half, prompt, greedy, 48, [eos])).toEqual(answer.slice(0, answer.indexOf(eos) + 1))
  })

  it('reports an empty answer as identical', async () => {
    expect(await compareWithReference(half, prompt, greedy, [])).toEqual({ identical: true, tokens: 0, agreeing: 0, nearTies: 0 })
  })
})
