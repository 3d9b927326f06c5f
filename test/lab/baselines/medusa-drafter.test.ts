import { afterAll, describe, expect, it } from 'vitest'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { medusaDrafter, medusaOf } from '../../../lab/baselines/medusa-drafter.ts'
import { buildDrafterBundle } from '../../support/drafter-bundle.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { verifiedStream } from '../../support/verified-stream.ts'

const dir = shared(tempDir)
const model = shared(async () =>
  openBundle(await buildDrafterBundle(dir.path), { parts: ['input', 'middle', 'output', 'medusa'], threads: 1 }),
)
afterAll(() => model.release())

describe('drafting by Medusa heads', () => {
  it("fills the bundle's tree with each head's most likely tokens at the last verified position", async () => {
    const { vocab } = model.manifest.dims
    const heads = model.medusa()
    const drafter = medusaDrafter(heads, vocab)
    using stream = await verifiedStream(model, [9, 8, 7, 6, 5])
    await stream.feed([4])
    await stream.verify(6)
    const { deep } = stream.known
    const tree = await drafter.tree(stream.known, 4)
    const logits = await heads.guess(deep.slice(5, 6))
    const ranked = Array.from({ length: 4 }, (_, head) => {
      const own = [...logits.subarray(head * vocab, (head + 1) * vocab)]
      return own.map((_, token) => token).sort((a, b) => own[b]! - own[a]! || a - b)
    })
    expect(tree.tokens).toEqual(heads.tree.map((path) => ranked[path.length - 1]![path.at(-1)!]))
    expect(tree.tokens).toHaveLength(8)
    expect(new Set(tree.tokens).size).toBeGreaterThan(3)
  })

  it('omits tokens beyond the end of the answer', async () => {
    const drafter = medusaDrafter(model.medusa(), model.manifest.dims.vocab)
    using stream = await verifiedStream(model, [9, 8, 7])
    const whole = await drafter.tree(stream.known, 4)
    expect(await drafter.tree(stream.known, 1)).toEqual({ tokens: whole.tokens.slice(0, 3), parents: [-1, -1, -1] })
    expect(await drafter.tree(stream.known, 0)).toEqual({ tokens: [], parents: [] })
  })
})

it('needs a bundle with its heads', () => {
  expect(() => medusaOf({ medusa: undefined, manifest: model.manifest })).toThrow(/no Medusa heads/)
})
