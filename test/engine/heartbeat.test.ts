import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, it } from 'vitest'
import { tinyLlamaConfig } from '../../core/model/random-checkpoint.ts'
import { someIds, workshop } from './models.ts'

/** About 30 million parameters: a prefill of 1,500 tokens takes seconds. */
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

it('leaves the event loop alone while a long prefill runs: no gap over 50 ms', { timeout: 120_000 }, async () => {
  await using bench = await workshop(config, 'F16')
  const chain = (await bench.open({ format: 'int4' })).chain({ cuts: 'half' })
  const ids = someIds(chain.manifest, 1500)
  // On a busy machine any process is kept waiting now and then: one undisturbed prefill of five shows what we do ourselves.
  const attempts: { tookMs: number; gapMs: number }[] = []
  while (attempts.length < 5 && !attempts.some(({ gapMs }) => gapMs <= 50)) {
    const sequence = chain.createSequence()
    const delay = monitorEventLoopDelay({ resolution: 5 })
    const startMs = performance.now()
    delay.enable()
    await chain.step([{ sequence, ids, select: 'last' }])
    delay.disable()
    attempts.push({ tookMs: performance.now() - startMs, gapMs: delay.max / 1e6 })
    sequence.release()
  }
  expect(Math.min(...attempts.map(({ gapMs }) => gapMs))).toBeLessThanOrEqual(50)
  expect(attempts.at(-1)?.tookMs).toBeGreaterThan(1000)
})
