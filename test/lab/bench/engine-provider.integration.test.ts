import { expect, it } from 'vitest'
import { measureProvider, type ProviderEffort, providerBench } from '../../../lab/bench/engine/provider-bench.ts'
import { tinyLlamaConfig } from '../../../lab/random-checkpoint.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'

const effort: ProviderEffort = {
  timed: { ...tinyLlamaConfig, num_hidden_layers: 1, max_position_embeddings: 1_100 },
  formats: ['fp32', 'int4'],
  exactness: { prompts: 2, tokens: 8, rows: 40 },
  contexts: [128, 1_024],
  packed: [8, 16],
  memory: true,
  rounds: 2,
  tokensPerRound: 2,
}

it('measures a provider: here the CPU, whose rows do not depend on their company', async () => {
  const { io } = captureIo()
  const measured = await measureProvider(effort, { quick: true, io, progress: io.err }, { provider: 'cpu' })
  const result = providerBench.resultOf(measured)
  expectFigures(providerBench, result)
  const same = { rowsDifferingInChunks: 0, rowsDifferingPacked: 0, tokensDifferingByCompany: 0, tokensNearlyTied: 0 }
  expect(result.summary).toMatchObject({ nodesOnProvider: 1, copiesPerStep: 0, kvOnDevice: 1, tokensDiffering: 0, ...same })
})
