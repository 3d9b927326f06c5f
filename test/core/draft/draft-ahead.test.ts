import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DeviceStream } from '../../../core/draft/device-stream.ts'
import { DraftAhead } from '../../../core/draft/draft-ahead.ts'
import type { DraftRules } from '../../../core/draft/draft-tokens.ts'
import { openBundle } from '../../../core/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/engine/open-model.ts'
import { countingDrafter } from '../../support/counting-drafter.ts'
import { buildDrafterBundle } from '../../support/drafter-bundle.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

let dir: TempDir
let model: LoadedModel
beforeAll(async () => {
  dir = tempDir()
  model = await openBundle(await buildDrafterBundle(dir.path), { parts: ['input'], threads: 1 })
})
afterAll(async () => {
  await model.release()
  dir[Symbol.dispose]()
})

const rules: DraftRules = { threshold: 0.6, limit: 4, eos: [99] }
const never = () => false

/** Prompt 1 2 3, pending 4, drafted 10 and 20, with the alternatives 30 and 40 to 20. */
async function draftUnderVerification() {
  const stream = new DeviceStream(model.part('input'), model.manifest.dims.hidden, 3)
  await stream.feed([1, 2, 3, 4, 10, 20])
  const ahead = await DraftAhead.begin(
    stream,
    { tokens: [10, 20], probabilities: [1, 1], alternatives: [[50], [30, 40]], ended: true },
    rules.eos,
  )
  return { stream, ahead }
}

describe('drafting ahead', () => {
  it('extends the last token and each alternative to it, all in one step', async () => {
    const { stream, ahead } = await draftUnderVerification()
    const { asked, drafter } = countingDrafter()
    expect([await ahead.step(drafter, rules, never), await ahead.step(drafter, rules, never)]).toEqual([3, 3])
    expect(asked).toEqual([
      [5, 6, 7],
      [8, 9, 10],
    ])
    expect(stream.ids.slice(6)).toEqual([30, 40, 21, 31, 41, 22, 32, 42])
    expect(stream.rows.parentsFrom(6)).toEqual([4, 4, 5, 6, 7, 8, 9, 10])
    stream.release()
  })

  it('has prepared a draft for a correction of the last token by an alternative, and for a predicted bonus token', async () => {
    const { stream, ahead } = await draftUnderVerification()
    const { drafter } = countingDrafter()
    await ahead.step(drafter, rules, never)
    await ahead.step(drafter, rules, never)
    expect(ahead.preparedAfter(4, 40)).toEqual({
      rows: [7, 10, 13],
      draft: { tokens: [41, 42], probabilities: [1, 1], alternatives: [[90], [91]], ended: false },
    })
    expect(ahead.preparedAfter(5, 21)).toEqual({
      rows: [8, 11],
      draft: { tokens: [22], probabilities: [1], alternatives: [[71]], ended: false },
    })
    // Another correction, another bonus token, an equal id at an earlier position.
    for (const [row, token] of [
      [4, 50],
      [5, 31],
      [3, 40],
      [3, 10],
    ] as const)
      expect(ahead.preparedAfter(row, token)).toBeUndefined()
    stream.release()
  })

  it('may branch at each token, which prepares for corrections of earlier ones', async () => {
    const stream = new DeviceStream(model.part('input'), model.manifest.dims.hidden, 3)
    await stream.feed([1, 2, 3, 4, 10, 20])
    const draft = { tokens: [10, 20], probabilities: [1, 1], alternatives: [[50], [30, 40]], ended: true }
    const ahead = await DraftAhead.begin(stream, draft, rules.eos, 'each')
    expect(stream.ids.slice(6)).toEqual([50, 30, 40])
    expect(stream.rows.parentsFrom(6)).toEqual([3, 4, 4])
    expect(await ahead.step(countingDrafter().drafter, rules, never)).toBe(4)
    expect(ahead.preparedAfter(3, 50)?.draft.tokens).toEqual([51])
    expect(ahead.preparedAfter(4, 40)?.draft.tokens).toEqual([41])
    expect(ahead.preparedAfter(4, 50)).toBeUndefined()
    stream.release()
  })

  it('ends each branch as a draft ends: at low confidence, at the length limit, at an end of text', async () => {
    const { stream, ahead } = await draftUnderVerification()
    const unconfident = countingDrafter(0.5)
    expect(await ahead.step(unconfident.drafter, rules, never)).toBe(3)
    expect(await ahead.step(unconfident.drafter, rules, never)).toBe(0)
    expect(ahead.preparedAfter(4, 30)?.draft).toEqual({ tokens: [31], probabilities: [0.5], alternatives: [[80]], ended: true })
    stream.release()

    const long = await draftUnderVerification()
    const confident = countingDrafter()
    for (let step = 0; step < rules.limit; step++) expect(await long.ahead.step(confident.drafter, rules, never)).toBe(3)
    // The branch of the draft gets one more token, because its first one becomes the pending token.
    expect(await long.ahead.step(confident.drafter, rules, never)).toBe(1)
    expect(await long.ahead.step(confident.drafter, rules, never)).toBe(0)
    expect(long.ahead.preparedAfter(4, 30)?.draft.tokens).toHaveLength(rules.limit)
    expect(long.ahead.preparedAfter(5, 21)?.draft.tokens).toHaveLength(rules.limit)
    long.stream.release()

    const last = new DeviceStream(model.part('input'), model.manifest.dims.hidden, 3)
    await last.feed([1, 2, 3, 4, 98])
    const ended = await DraftAhead.begin(last, { tokens: [98], probabilities: [1], alternatives: [[99]], ended: true }, rules.eos)
    expect(await ended.step(confident.drafter, rules, never)).toBe(1)
    expect(await ended.step(confident.drafter, rules, never)).toBe(0)
    expect(last.ids.slice(5)).toEqual([99, 99])
    last.release()
  })

  it('feeds nothing after the verification has ended', async () => {
    const { stream, ahead } = await draftUnderVerification()
    expect(await ahead.step(countingDrafter().drafter, rules, () => true)).toBe(0)
    expect(stream.ids).toHaveLength(8)
    stream.release()
  })
})
