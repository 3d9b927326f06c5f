import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { openDeviceModel } from '../../../agent/hat/open-device-model.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const fixtures = fileURLToPath(new URL('../../oracle/fixtures', import.meta.url))
const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 5 }
const random = seededRandom(3)
const prompt = Array.from({ length: 21 }, () => Math.floor(random.next() * 160))

const dir = shared(tempDir)
const world = shared(async () => {
  const bundle = join(dir.path, 'bundle')
  const draftHead = join(fixtures, 'draft-heads', 'qwen')
  await buildBundle({ checkpoint: fixtureDir('llama'), out: bundle, format: 'fp32', split: 1, draftHead })
  return startHatWorld({ bundle, settings: { chunkTokens: 8, draftLimit: 6 } })
})

describe('an answer that a published draft head drafts', () => {
  it.each([
    ['greedy, a line', greedy, false],
    ['greedy, drafting ahead', greedy, true],
    ['sampled, drafting ahead', sampled, true],
  ] as const)('is the reference: %s', async (_, sampling, draftAhead) => {
    const expected = await referenceAnswer(world.chain, prompt, sampling, 40, [])
    // A random head is rarely sure of anything.
    const answer = await world.answer({ prompt, maxTokens: 40, sampling }, { draftAhead, threshold: 0.05 })
    expect(answer.tokens).toEqual(expected)
    expect(answer.figures.drafted).toBeGreaterThan(20)
  })

  it("is the reference with the device's own parts, whose heads are two", async () => {
    const device = await openDeviceModel({ bundle: world.bundle, threads: 1, medusa: false })
    try {
      const { adapter, adapterHead, head, input } = device
      expect(adapterHead).not.toBe(head)
      const overrides = {
        input,
        head,
        threshold: 0.05,
        createDrafter: (sampling: Sampling) => adapterDrafter(adapter!, adapterHead, sampling),
      }
      const answer = await world.answer({ prompt, maxTokens: 24 }, overrides)
      expect(answer.tokens).toEqual(await referenceAnswer(world.chain, prompt, greedy, 24, []))
      expect(answer.figures.drafted).toBeGreaterThan(10)
    } finally {
      await device.close()
    }
  })
})
