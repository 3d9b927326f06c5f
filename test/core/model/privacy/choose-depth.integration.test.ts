import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadTextModel } from '../../../../core/answer/endpoint/text-model.ts'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { openBundle } from '../../../../core/model/engine/open-bundle.ts'
import { type AuditedAttack, auditPrivacy } from '../../../../core/model/privacy/audit.ts'
import { chooseDepth, strongestOf } from '../../../../core/model/privacy/choose-depth.ts'
import { onWire, type Sending } from '../../../../core/model/privacy/observation.ts'
import { noisy } from '../../../../lab/bench/privacy/disguises.ts'
import { fixtureDir } from '../../../oracle/fixtures.ts'
import { type TempDir, tempDir } from '../../../support/temp-dir.ts'

const measuring = (shares: readonly number[]) => async (split: number) => ({
  split,
  recovery: { attack: 'search', text: 'prompt', share: shares[split - 1]! } as const,
})
const splits = (count: number) => Array.from({ length: count }, (_, at) => at + 1)

it('chooses the shallowest split within the bound, and measures none that is deeper', async () => {
  const shares = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(shares, fc.double({ min: 0, max: 1, noNaN: true }), async (recovered, bound) => {
      const { split, measured } = await chooseDepth(splits(recovered.length), bound, measuring(recovered))
      const first = recovered.findIndex((share) => share <= bound)
      expect(split).toBe(first < 0 ? undefined : first + 1)
      expect(measured.map((each) => each.split)).toEqual(splits(first < 0 ? recovered.length : first + 1))
    }),
  )
})

it('judges by the attack that recovers most, by the upper end of its interval', () => {
  const found = (attack: AuditedAttack['attack'], mean: number, high: number): AuditedAttack => {
    const recovered = { top1: { mean, low: 0, high }, top10: null, rougeL: null, entities: null }
    return { attack, text: 'answer', texts: 1, tokens: 1, recovered, seconds: 0 }
  }
  expect(strongestOf([found('nearest', 0.5, 0.6), found('trained', 0.4, 0.9)])).toEqual({
    attack: 'trained',
    text: 'answer',
    share: 0.9,
  })
})

describe('with the attacks themselves', { timeout: 60_000 }, () => {
  let dir: TempDir
  beforeAll(() => {
    dir = tempDir()
  })
  afterAll(() => dir[Symbol.dispose]())

  /** Audits a split of the tiny Llama, whose states are sent so. */
  const auditing = (sendAt: (split: number) => Sending) => async (split: number) => {
    const out = join(dir.path, `split-${split}`)
    await buildBundle({ checkpoint: fixtureDir('llama'), out, split, format: 'fp32', drafters: [], replace: true })
    const model = await openBundle(out, { parts: 'chain', threads: 1 })
    try {
      const { tokenizer } = await loadTextModel(out, model.manifest)
      const prompts = ['Where is the river, and how far is it?', 'The doctor sends a letter to the mill.'].map((text) =>
        tokenizer.encode(text),
      )
      const found = await auditPrivacy({
        ...{ model, prompts, training: [], answerTokens: 6, now: () => 0, random: seededRandom(1) },
        send: sendAt(split),
        decode: (ids) => tokenizer.decode([...ids]),
      })
      // What the bridge computes of the answer does not depend on the depth.
      return { split, recovery: strongestOf(found.filter(({ attack }) => attack !== 'head')) }
    } finally {
      await model.release()
    }
  }
  const random = noisy(1_000, seededRandom(1))

  it('finds no depth at which plain states hide anything', async () => {
    const { split, measured } = await chooseDepth(
      [1, 2],
      0.5,
      auditing(() => onWire('fp16')),
    )
    expect(split).toBeUndefined()
    for (const { recovery } of measured) expect(recovery).toMatchObject({ share: 1 })
  })

  it('takes the first depth from which on the attacks get nothing but noise', async () => {
    const { split, measured } = await chooseDepth(
      [1, 2],
      0.5,
      auditing((at) => (at === 1 ? onWire('fp16') : random)),
    )
    expect([split, measured.length]).toEqual([2, 2])
    expect(measured[1]!.recovery.share).toBeLessThan(0.5)
  })
})
