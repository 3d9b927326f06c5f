import { describe, expect, it } from 'vitest'
import { drafterMaker, drafterNames } from '../../../agent/hat/create-drafter.ts'
import type { HatOptions } from '../../../agent/hat/hat-options.ts'
import { PrefixMemory } from '../../../agent/hat/prefix-memory.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { stateless, type TreeDrafter } from '../../../core/model/draft/drafter.ts'
import { lookupDrafter } from '../../../core/model/draft/lookup-drafter.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import type { DraftTree } from '../../../core/policy/hat/draft-tree.ts'
import { medusaDrafter } from '../../../lab/baselines/medusa-drafter.ts'
import { buildDrafterBundle } from '../../support/drafter-bundle.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { TimelessSpeed } from '../../support/timeless-speed.ts'

const vocab = 160
const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 5 }
const seeded = seededRandom(31)
const randomIds = (count: number) => Array.from({ length: count }, () => Math.floor(seeded.next() * vocab))

const dir = shared(tempDir)
const world = shared(async () => {
  const bundle = await buildDrafterBundle(dir.path)
  return startHatWorld({ bundle, settings: { chunkTokens: 8, draftLimit: 8 } })
})

const reference = (prompt: readonly number[], maxTokens: number, sampling = greedy) =>
  referenceAnswer(world.chain, prompt, sampling, maxTokens, [])

/** Trees of any shape, with right tokens in about 60 % of their nodes. */
function anyTrees(prompt: readonly number[], right: readonly number[], random: Random): TreeDrafter {
  return {
    ...stateless,
    async tree({ deep }, maxDepth): Promise<DraftTree> {
      const tokens: number[] = []
      const parents: number[] = []
      const depths: number[] = []
      for (let node = 0; node < Math.floor(random.next() * 9); node++) {
        const parent = Math.floor(random.next() * (node + 1)) - 1
        const depth = parent < 0 ? 1 : depths[parent]! + 1
        if (depth > maxDepth) continue
        const choice = right[deep.length - prompt.length + depth] ?? 0
        tokens.push(random.next() < 0.6 ? choice : Math.floor(random.next() * vocab))
        parents.push(parents.length === 0 ? -1 : Math.min(parent, parents.length - 1))
        depths.push(parents.at(-1)! < 0 ? 1 : depths[parents.at(-1)!]! + 1)
      }
      const tooDeep = depths.findIndex((depth) => depth > maxDepth)
      const end = tooDeep < 0 ? tokens.length : tooDeep
      return { tokens: tokens.slice(0, end), parents: parents.slice(0, end) }
    },
  }
}

const treesOf = (prompt: readonly number[], right: readonly number[], random: Random): Partial<HatOptions> => ({
  createDrafter: () => anyTrees(prompt, right, random),
})

/** The link of each session breaks at its `at`-th frame, `times` times in all. */
function breaking(at: number, times: number): Partial<HatOptions> {
  let left = times
  return {
    async open(signal, options) {
      const session = await world.options().open(signal, options)
      const exchange = session.exchange.bind(session)
      let frames = 0
      session.exchange = (base, rows, want, form) => {
        frames += 1
        if (frames < at || left === 0) return exchange(base, rows, want, form)
        left -= 1
        // In half of the cases the bridge has received the frame.
        if (left % 2 === 0) exchange(base, rows, want, form).catch(() => {})
        return Promise.reject(new BrimError('LINK_LOST', 'cut by the test'))
      }
      return session
    },
  }
}

describe('an answer whose drafts branch', () => {
  it.each([
    ['greedy', greedy],
    ['sampled', sampled],
  ])('is the reference, whatever the trees and however much of them is right (%s)', async (_, sampling) => {
    const random = seededRandom(7)
    let accepted = 0
    for (let at = 0; at < 12; at++) {
      const prompt = randomIds(3 + Math.floor(random.next() * 14))
      const right = await reference(prompt, 24, sampling)
      const answer = await world.answer({ prompt, maxTokens: 24, sampling }, treesOf(prompt, right, random))
      expect(answer.tokens).toEqual(right)
      accepted += answer.figures.accepted
    }
    expect(accepted).toBeGreaterThan(60)
  })

  it.each([2, 3, 5, 8])('is the reference when the link breaks at frame %i, tree under way or not', async (at) => {
    const random = seededRandom(at)
    for (let run = 0; run < 4; run++) {
      const prompt = randomIds(12)
      const right = await reference(prompt, 30)
      const options = { ...treesOf(prompt, right, random), ...breaking(at, 3) }
      const { tokens, figures } = await world.answer({ prompt, maxTokens: 30 }, options)
      expect(tokens).toEqual(right)
      expect(figures.failovers).toBeGreaterThan(0)
    }
  })

  it('leaves a prefix that the next answer can resume', async () => {
    const random = seededRandom(9)
    for (let run = 0; run < 8; run++) {
      const prefixes = new PrefixMemory(systemClock)
      const prompt = randomIds(20)
      const right = await reference(prompt, 12)
      const first = await world.answer({ prompt, maxTokens: 12 }, { ...treesOf(prompt, right, random), prefixes })
      const next = [...prompt, ...first.tokens, ...randomIds(3)]
      const { tokens, figures } = await world.answer({ prompt: next, maxTokens: 12 }, { prefixes })
      expect(tokens).toEqual(await reference(next, 12))
      expect(figures.reusedTokens).toBeGreaterThanOrEqual(20)
    }
  })

  it('uses the context to its last position', async () => {
    const { contextLimit } = world.model.manifest.dims
    const prompt = randomIds(contextLimit - 10)
    const right = await reference(prompt, 10)
    const { tokens } = await world.answer({ prompt, maxTokens: 10 }, treesOf(prompt, right, seededRandom(3)))
    expect(tokens).toEqual(right)
  })
})

describe('with all drafters of a bundle', () => {
  it('no round drafts more than the bridge or the device allows, trees included', async () => {
    const { model } = world
    const prompt = randomIds(15)
    const expected = await reference(prompt, 20)
    for (const draftLimit of [0, 1, 3]) {
      const options = { createDrafter: () => medusaDrafter(model.medusa(), vocab), draftLimit }
      const { tokens, rounds } = await world.answer({ prompt, maxTokens: 20 }, options)
      expect(tokens).toEqual(expected)
      expect(Math.max(...rounds.map(({ drafted }) => drafted))).toBe(draftLimit)
    }
  })

  it('a run that is drafted ahead ends with the context', async () => {
    const { contextLimit } = world.model.manifest.dims
    for (let left = 12; left < 22; left++) {
      const start = randomIds(8)
      const prompt = Array.from({ length: contextLimit - left }, (_, at) => start[at % 8]!)
      const expected = await reference(prompt, left)
      const { tokens } = await world.answer(
        { prompt, maxTokens: left },
        { createDrafter: lookupDrafter, speed: new TimelessSpeed() },
      )
      expect(tokens).toEqual(expected)
    }
  })

  it.each([...drafterNames, 'medusa' as const])('%s: the answer is the reference, drafted ahead or not', async (name) => {
    const { head, model } = world
    const slm = { borrow: async () => ({ chain: world.chain, release() {} }), vocab }
    const parts = { adapter: model.part('adapter'), head, slm, threshold: 0.02, draftAhead: true }
    const createDrafter = name === 'medusa' ? () => medusaDrafter(model.medusa(), vocab) : drafterMaker(name, parts)
    for (const sampling of [greedy, sampled])
      for (const draftAhead of [true, false]) {
        const prompt = randomIds(15)
        const options = { createDrafter, draftAhead, threshold: 0.02 }
        const { tokens, figures } = await world.answer({ prompt, maxTokens: 40, sampling }, options)
        expect(tokens).toEqual(await reference(prompt, 40, sampling))
        expect(figures.ahead === null).toBe(!draftAhead || name === 'medusa')
        if (name === 'medusa') expect(figures.drafted).toBeGreaterThan(100)
      }
  })

  it.each(['chunked', 'whole', 'whole-all'] as const)('a prompt sent %s', async (prefill) => {
    const prompt = randomIds(60)
    const { tokens } = await world.answer({ prompt, maxTokens: 8 }, { prefill })
    expect(tokens).toEqual(await reference(prompt, 8))
    const { figures } = await world.answer({ prompt, maxTokens: 1 }, { prefill })
    const statesDown = figures.bytesDown / (2 * world.model.manifest.dims.hidden)
    expect(Math.floor(statesDown / 60)).toBe(prefill === 'whole-all' ? 1 : 0)
  })
})
