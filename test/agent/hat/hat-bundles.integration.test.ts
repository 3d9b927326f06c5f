import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { type HeaderEntry, tinyCheckpoint } from '../../support/checkpoint.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { postJson } from '../../support/post-json.ts'
import { tempDir } from '../../support/temp-dir.ts'

const hidden = 64

/** A split bundle in which the embeddings of these tokens are so large that their states do not fit fp16. */
async function bundleWithLoudTokens(dir: string, loud: (token: number) => boolean): Promise<string> {
  const adapter = { split: 1, heads: 4, kvHeads: 2, headDim: 16 }
  const checkpoint = await tinyCheckpoint(join(dir, 'checkpoint'), {}, { adapter })
  const path = join(checkpoint, 'model.safetensors')
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const header = JSON.parse(bytes.toString('utf8', 8, data)) as Record<string, HeaderEntry>
  const [from, to] = header['model.embed_tokens.weight']!.data_offsets
  for (let at = from; at < to; at += 4) {
    const token = Math.floor((at - from) / 4 / hidden)
    if (loud(token)) bytes.writeFloatLE(bytes.readFloatLE(data + at) * 2_000_000, data + at)
  }
  writeFileSync(path, bytes)
  const out = join(dir, 'bundle')
  await buildBundle({ checkpoint, out, split: 1, format: 'fp32', name: 'loud' })
  return out
}

describe('rows that fp16 cannot hold', () => {
  it.each<[string, Sampling]>([
    ['greedy', greedy],
    ['sampled', { temperature: 0.8, topK: 0, topP: 1, seed: 9 }],
  ])('travel as fp32 and are counted; the answer is the reference (%s)', async (_, sampling) => {
    using dir = tempDir()
    const loud = (token: number) => token % 3 === 0
    const bundle = await bundleWithLoudTokens(dir.path, loud)
    await using world = await startHatWorld({ bundle, settings: { chunkTokens: 8 } })
    const random = seededRandom(2)
    for (let at = 0; at < 4; at++) {
      const prompt = Array.from({ length: 21 }, () => Math.floor(random.next() * 160))
      const expected = await referenceAnswer(world.chain, prompt, sampling, 24, [])
      const { tokens, figures } = await world.answer({ prompt, maxTokens: 24, sampling }, { padding: false })
      expect(tokens).toEqual(expected)
      expect(figures.drafted).toBeGreaterThan(0)
      expect(figures.wideRows).toBeGreaterThanOrEqual(prompt.filter(loud).length)
      // Rows that fit travel as fp16.
      expect(figures.bytesUp).toBeLessThan((prompt.length + figures.rounds + figures.drafted) * hidden * 6)
    }
  })
})

describe('a bundle without an adapter', () => {
  it('decodes one token per round trip, as the reference does', async () => {
    await using world = await startAgentWorld({ adapter: false })
    const response = await postJson(`${world.agent.apiUrl}/v1/completions`, {
      prompt: [5, 6, 7, 8, 9],
      max_tokens: 12,
      temperature: 0,
      brim: { token_ids: true },
    })
    const { brim } = (await response.json()) as { brim: object }
    const model = await openBundle(world.bundle, { parts: 'chain', threads: 1 })
    const { eos } = model.manifest.tokens
    const expected = await referenceAnswer(model.chain({ cuts: 'half' }), [5, 6, 7, 8, 9], greedy, 12, eos)
    await model.release()
    expect(brim).toMatchObject({ tokenIds: expected, drafted: 0, rounds: expected.length - 1, acceptLength: 1, wideRows: 0 })
  })
})
