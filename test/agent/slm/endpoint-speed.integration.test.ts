import { expect, it } from 'vitest'
import { slmEndpoint } from '../../../agent/slm/endpoint.ts'
import { openLocalModel } from '../../../agent/slm/local-model.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { buildSlmBundle } from '../../support/agent-world.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('measures how fast the small model computes, however slowly its tokens are read', async () => {
  using dir = tempDir()
  const model = await openLocalModel({ bundle: await buildSlmBundle(dir.path), threads: 1 })
  try {
    let nowMs = 0
    const { chain, speed } = model
    const wasComputing: boolean[] = []
    const slow: typeof chain = {
      manifest: chain.manifest,
      createSequence: () => chain.createSequence(),
      step(items) {
        nowMs += 40
        wasComputing.push(speed.isComputing)
        return chain.step(items)
      },
    }
    const endpoint = slmEndpoint({ ...model, chain: slow }, { ...systemClock, nowMs: () => nowMs })
    const prompt = new Prompt({ kind: 'ids', tokens: { model: endpoint.model, ids: Array.from({ length: 20 }, (_, at) => at) } })
    const request = { prompt, sampling: greedy, stop: [], client: 'app', ignoreEos: true, maxTokens: 6 }
    let tokens = 0
    for await (const delta of endpoint.answer(request, new AbortController().signal)) {
      expect(speed.isComputing).toBe(false)
      nowMs += 1_000
      tokens += delta.tokens.length
      if (tokens === 4) break
    }
    expect(wasComputing).toEqual([true, true, true, true])
    expect(speed.isComputing).toBe(false)
    expect(speed.prefillTokensPerS).toBeCloseTo(500)
    expect(speed.decodeTokensPerS).toBeCloseTo(25)
  } finally {
    await model.close()
  }
})
