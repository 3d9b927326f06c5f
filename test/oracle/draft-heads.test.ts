import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { draftOutput } from '../../core/model/bundle/manifest.ts'
import { adapterDrafter } from '../../core/model/draft/adapter-drafter.ts'
import { openBundle } from '../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../core/model/engine/open-model.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { type SharedHead, shareHead } from '../../core/model/engine/shared-head.ts'
import { rowsOf } from '../support/plain-math.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { verifiedStream } from '../support/verified-stream.ts'

// Made by scripts/train/oracle/make_draft_heads.py: heads in the published layout, and what the published arithmetic makes of them.
const fixtures = fileURLToPath(new URL('fixtures', import.meta.url))
const width = 64

describe.each(['llama', 'qwen'])('a published draft head (%s)', (name) => {
  const folder = join(fixtures, 'draft-heads', name)
  const oracle = JSON.parse(readFileSync(join(folder, 'oracle.json'), 'utf8'))
  const { ids, prompt, drafted, probabilities } = oracle as {
    ids: number[]
    prompt: number
    drafted: number[]
    probabilities: number[]
  }
  const dir = shared(tempDir)
  let model: LoadedModel
  let head: SharedHead
  beforeAll(async () => {
    const out = join(dir.path, 'bundle')
    await buildBundle({ checkpoint: join(fixtures, 'drafters'), out, format: 'fp32', split: 1, draftHead: folder })
    model = await openBundle(out, { parts: ['input', 'middle', 'adapter', draftOutput], threads: 1 })
    head = shareHead(model.head(draftOutput), model.manifest.dims.vocab)
  })
  afterAll(() => model.release())

  it('computes the published guesses of the states', async () => {
    using stream = await verifiedStream(model, ids.slice(0, prompt))
    await stream.feed(ids.slice(prompt))
    await stream.verify(ids.length)
    const adapter = model.part('adapter')
    const sequence = adapter.createSequence()
    const features = stream.known.deep.slice(prompt - 1, ids.length - 1)
    const states = { rows: 3, width, half: new Uint16Array(3 * width) }
    const [got] = await adapter.step([{ sequence, ids: ids.slice(prompt), states, features, select: 'all' }])
    sequence.release()
    const want = [...new Float32Array(Uint8Array.from(Buffer.from(oracle.known, 'base64')).buffer)]
    const differences = rowsOf(got!)
      .flat()
      .map((value, i) => Math.abs(value - want[i]!))
    expect(differences).toHaveLength(want.length)
    // The deep states before it are rounded to fp16 by both sides, which differ in their last bits.
    expect(Math.max(...differences)).toBeLessThan(1e-2)
  })

  it('drafts the published tokens, each from its own guess before it', async () => {
    const drafter = adapterDrafter(model.part('adapter'), head, greedy)
    using stream = await verifiedStream(model, ids.slice(0, prompt), (known) => drafter.catchUp(known))
    await stream.feed(ids.slice(prompt, -1))
    await stream.verify(ids.length - 1)
    await stream.feed(ids.slice(-1))
    for (const [at, token] of drafted.entries()) {
      const [guess] = await drafter.next(stream.known, [stream.known.rows.length - 1])
      expect(guess?.[0]?.token).toBe(token)
      expect(Math.abs(guess![0]!.topProbability - probabilities[at]!)).toBeLessThan(5e-3)
      await stream.feed([token])
    }
    drafter.release()
  })
})
