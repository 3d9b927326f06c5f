import { it } from 'vitest'
import { engineBench, measureEngine } from '../../../lab/bench/engine/bench.ts'
import { tinyLlamaConfig, tinyQwen2Config } from '../../../lab/random-checkpoint.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'

it('measures our engine and the stock binding on the bundles of today', async () => {
  const { io } = captureIo()
  const models = { small: { ...tinyLlamaConfig, max_position_embeddings: 1_100 }, qwen: tinyQwen2Config }
  const effort = { contexts: [1_024], rounds: 1, tokensPerRound: 2, prefills: 1, packedRounds: 1, qwenRounds: 1 }
  const measured = await measureEngine(models, effort, { quick: true, io, progress: io.err })
  expectFigures(engineBench, engineBench.resultOf(measured))
})
