import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { adapterLookupDrafter } from '../../../../core/model/draft/adapter-lookup-drafter.ts'
import type { KnownStream } from '../../../../core/model/draft/device-stream.ts'
import { type Drafter, stateless } from '../../../../core/model/draft/drafter.ts'
import { guessOf } from '../../../../core/model/draft/guess-of.ts'
import { lookupDrafter } from '../../../../core/model/draft/lookup-drafter.ts'
import { StateRows } from '../../../../core/model/draft/state-rows.ts'
import { RowTree } from '../../../../core/model/engine/row-tree.ts'
import { emptyChain, extended, isComplete } from '../../../../core/policy/hat/draft-chain.ts'
import { thresholdRule } from '../../../../core/policy/hat/draft-rounds.ts'

/** Lookup reads only token ids. */
function streamOf(ids: number[]): KnownStream & { readonly ids: number[] } {
  return {
    ids,
    get rows() {
      return RowTree.lineOf(ids.length)
    },
    shallow: new StateRows(1),
    deep: new StateRows(1),
  }
}

const limits = thresholdRule(0, 8)
/** The draft of one round; all its tokens are dropped afterwards. */
async function draftOf(drafter: Drafter, ids: readonly number[], eos: readonly number[] = [], rule = limits): Promise<number[]> {
  const known = streamOf([...ids])
  const tokens: number[] = []
  for (let chain = emptyChain; !isComplete(chain, rule); ) {
    const [guesses = []] = await drafter.next(known, [known.ids.length - 1])
    const proposed = guesses.map((guess) => guessOf(guess, eos))
    chain = extended(chain, proposed, rule)
    const taken = guesses.slice(0, chain.guesses.length - tokens.length).map(({ token }) => token)
    tokens.push(...taken)
    known.ids.push(...taken)
  }
  expect(known.ids).toEqual([...ids, ...tokens])
  drafter.gather(ids.length, [])
  return tokens
}

/** Always guesses the same token. */
const guessing = (token: number, topProbability: number): Drafter => ({
  ...stateless,
  next: async (_, rows) => rows.map(() => [{ token, source: 'adapter' as const, topProbability, alternatives: [] }]),
})

describe('drafting by lookup', () => {
  it('copies the continuation of the previous occurrence, up to the limit', async () => {
    const text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    expect(await draftOf(lookupDrafter(), [...text, 1, 2])).toEqual([3, 4, 5, 6, 7, 8, 9, 10])
  })

  it('continues a repetition', async () => {
    expect(await draftOf(lookupDrafter(), [1, 2, 3, 1, 2, 3])).toEqual([1, 2, 3, 1, 2, 3, 1, 2])
  })

  it('drafts nothing without a previous occurrence, and nothing after an end of text', async () => {
    expect(await draftOf(lookupDrafter(), [1, 2, 3])).toEqual([])
    expect(await draftOf(lookupDrafter(), [1, 2, 3, 4, 1], [3])).toEqual([2, 3])
  })
})

describe.each([
  { what: 'lookup', create: lookupDrafter },
  { what: 'adapter and lookup', create: () => adapterLookupDrafter(guessing(7, 0.59), 0.6) },
])('drafting by $what, over several rounds', ({ create }) => {
  it('forgets rejected tokens', async () => {
    const text = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(text, fc.array(text, { maxLength: 5 }), async (start, more) => {
        const drafter = create()
        const ids = [...start]
        for (const tokens of more) {
          await draftOf(drafter, ids)
          ids.push(...tokens)
          expect(await draftOf(drafter, ids)).toEqual(await draftOf(create(), ids))
          ids.length -= Math.floor(tokens.length / 2)
          drafter.gather(ids.length, [])
        }
      }),
    )
  })
})

describe('drafting by adapter and lookup', () => {
  it('uses the adapter while its confidence is high', async () => {
    const drafter = adapterLookupDrafter(guessing(7, 0.6), 0.6)
    expect(await draftOf(drafter, [1, 2, 3, 1, 2])).toEqual([7, 7, 7, 7, 7, 7, 7, 7])
  })

  it('uses lookup if the confidence is low and at least two tokens have occurred before', async () => {
    const drafter = adapterLookupDrafter(guessing(7, 0.59), 0.6)
    expect(await draftOf(drafter, [1, 2, 3, 1, 2])).toEqual([3, 1, 2, 3, 1, 2, 3, 1])
  })

  it("otherwise ends with the adapter's token", async () => {
    const drafter = adapterLookupDrafter(guessing(7, 0.59), 0.6)
    expect(await draftOf(drafter, [1, 2, 3, 2], [], thresholdRule(0.6, 8))).toEqual([7])
  })
})
