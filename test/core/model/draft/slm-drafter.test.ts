import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { type SlmDrafterOptions, slmDrafter } from '../../../../core/model/draft/slm-drafter.ts'
import type { Chain } from '../../../../core/model/engine/contract.ts'
import { openBundle } from '../../../../core/model/engine/open-bundle.ts'
import { RowTree } from '../../../../core/model/engine/row-tree.ts'
import { greedy } from '../../../../core/model/engine/sampler.ts'
import { shared } from '../../../support/shared.ts'
import { tinyBundle } from '../../../support/tiny-bundle.ts'

const vocab = 160

const bundle = shared(() => tinyBundle({ seed: 4 }))
const model = shared(() => openBundle(bundle.path, { parts: ['input', 'middle', 'output'], threads: 1 }))
const chain = shared(() => model.chain({ cuts: 'full' }))
afterAll(() => model.release())

/** A stream of tokens as drafters see it; this drafter reads no states. */
const stream = (ids: readonly number[], rows = RowTree.lineOf(ids.length)) =>
  ({ ids, rows }) as unknown as Parameters<ReturnType<typeof slmDrafter>['next']>[0]

async function likeliestAfter(ids: readonly number[]): Promise<number> {
  const sequence = chain.createSequence()
  const logits = await chain.step([{ sequence, ids, select: 'last' }])
  sequence.release()
  return logits.indexOf(Math.max(...logits))
}

/** With a model that is lent at once, and the number of models that are lent now. */
function lending(options: Partial<SlmDrafterOptions> = {}) {
  let lent = 0
  const borrow = async () => {
    lent += 1
    return {
      chain,
      release: () => {
        lent -= 1
      },
    }
  }
  const drafter = slmDrafter({ borrow, vocab, maxUnread: undefined, ...options }, greedy)
  const tokens = async (ids: readonly number[], rows?: RowTree) => {
    const known = stream(ids, rows)
    const guesses = await drafter.next(known, [ids.length - 1])
    return guesses[0]!.map(({ token }) => token)
  }
  return { drafter, tokens, lent: () => lent }
}

describe('a small model that drafts', () => {
  it('guesses what it would say after any stream, whatever of an earlier one was rejected', async () => {
    const { drafter, tokens } = lending()
    await drafter.catchUp(stream([1, 2, 3]))
    const ids = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 9 })
    await fc.assert(
      fc.asyncProperty(ids, async (next) => {
        expect(await tokens(next)).toEqual([await likeliestAfter(next)])
      }),
      { numRuns: 40 },
    )
    drafter.release()
  })

  it('guesses after each branch of a tree', async () => {
    const { drafter } = lending()
    await drafter.catchUp(stream([7, 8]))
    const ids = [7, 8, 20, 30, 31]
    const known = stream(ids, RowTree.lineOf(2).extended(3, [1, 1, 2]))
    const guesses = await drafter.next(known, [3, 4])
    const expected = [await likeliestAfter([7, 8, 30]), await likeliestAfter([7, 8, 20, 31])]
    expect(guesses.map(([guess]) => guess?.token)).toEqual(expected)
    drafter.release()
  })

  it('drafts nothing where it has too much to read, and reads nothing before its first draft', async () => {
    const { drafter, tokens, lent } = lending({ maxUnread: 4 })
    await drafter.catchUp(stream([1, 2, 3]))
    expect(lent()).toBe(0)
    expect(await tokens([1, 2, 3, 4, 5])).toEqual([])
    expect(lent()).toBe(0)
    // The model is lent meanwhile.
    expect(await tokens([1, 2, 3, 4])).toEqual([])
    expect(await tokens([1, 2, 3, 4])).toHaveLength(1)
    expect(await tokens([1, 2, 3, 4, 5, 6, 7])).toHaveLength(1)
    drafter.release()
    expect(lent()).toBe(0)
  })

  it('drafts nothing beyond its context, or after a token that it does not have', async () => {
    const { drafter, tokens } = lending()
    await drafter.catchUp(stream([1]))
    const { contextLimit } = chain.manifest.dims
    expect(await tokens(Array<number>(contextLimit).fill(1))).toHaveLength(1)
    expect(await tokens(Array<number>(contextLimit + 1).fill(1))).toEqual([])
    expect(await tokens([1, vocab])).toEqual([])
    drafter.release()
  })

  it.each([
    ['smaller', 90],
    ['larger', 200],
  ])('guesses tokens of the LLM if the LLM has a %s vocabulary', async (_, size) => {
    const { drafter, tokens } = lending({ vocab: size })
    await drafter.catchUp(stream([1]))
    for (let id = 0; id < 40; id++) expect((await tokens([id]))[0]).toBeLessThan(Math.min(size, vocab))
    drafter.release()
  })

  it('drafts nothing if it cannot be opened, or its memory is not enough', async () => {
    const refused = lending({ borrow: () => Promise.reject(new BrimError('MODEL_MISSING', 'it was deleted')) })
    expect(await refused.tokens([1, 2])).toEqual([])
    expect(await refused.tokens([1, 2])).toEqual([])
    refused.drafter.release()
    let released = 0
    const step = () => Promise.reject(new BrimError('OUT_OF_MEMORY', 'no memory for KV'))
    const failing: Chain = { manifest: chain.manifest, createSequence: () => chain.createSequence(), step }
    const { drafter, tokens } = lending({ borrow: async () => ({ chain: failing, release: () => void released++ }) })
    await drafter.catchUp(stream([1]))
    expect(await tokens([1, 2])).toEqual([])
    expect(await tokens([1, 2])).toEqual([])
    expect(released).toBe(1)
    drafter.release()
    expect(released).toBe(1)
  })

  it('that is lent after the end of the answer is given back', async () => {
    let lend = () => {}
    let released = 0
    const borrow = () =>
      new Promise<{ chain: Chain; release(): void }>((resolve) => {
        lend = () => resolve({ chain, release: () => void released++ })
      })
    const { drafter, tokens } = lending({ borrow })
    expect(await tokens([1])).toEqual([])
    drafter.release()
    lend()
    await new Promise(setImmediate)
    expect(released).toBe(1)
  })
})
