import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, it } from 'vitest'
import { tinyLlamaConfig } from '../../../../lab/random-checkpoint.ts'
import { someIds, workshop } from './models.ts'

/** About 30 million parameters: a prefill of 1,800 tokens takes about a second. */
const config = {
  ...tinyLlamaConfig,
  hidden_size: 512,
  intermediate_size: 1408,
  num_hidden_layers: 8,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  vocab_size: 2048,
  max_position_embeddings: 2048,
}

it('blocks the event loop for at most 50 ms during a long prefill', { timeout: 120_000 }, async () => {
  await using bench = await workshop(config, 'F16')
  const chain = (await bench.open({ format: 'int4' })).chain({ cuts: 'half' })
  const ids = someIds(chain.manifest, 1800)
  // Other processes may delay this one, so one second without a gap out of eight suffices.
  const gapsMs: number[] = []
  while (gapsMs.length < 8 && !gapsMs.some((gap) => gap <= 50)) {
    const delay = monitorEventLoopDelay({ resolution: 5 })
    delay.enable()
    const startMs = performance.now()
    while (performance.now() < startMs + 1000) {
      const sequence = chain.createSequence()
      await chain.step([{ sequence, ids, select: 'last' }])
      sequence.release()
    }
    delay.disable()
    gapsMs.push(delay.max / 1e6)
  }
  expect(Math.min(...gapsMs)).toBeLessThanOrEqual(50)
})
