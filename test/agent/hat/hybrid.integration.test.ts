import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PrefixMemory } from '../../../agent/hat/prefix-memory.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { noDrafter } from '../../../core/model/draft/drafter.ts'
import { lookupDrafter } from '../../../core/model/draft/lookup-drafter.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { ServingPolicy } from '../../../core/policy/serving/policy.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { type HatWorld, startHatWorld } from '../../support/hat-world.ts'
import { randomStates } from '../../support/random-states.ts'
import { openStream, testServing } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
let world: HatWorld
beforeAll(async () => {
  const bundle = `${dir.path}/bundle`
  await buildBundle({ checkpoint: fixtureDir('qwen3-5'), out: bundle, split: 2, format: 'fp32' })
  world = await startHatWorld({ bundle, settings: { chunkTokens: 16 } })
})
afterAll(() => world[Symbol.asyncDispose]())

const random = seededRandom(5)
const randomIds = (count: number) => Array.from({ length: count }, () => Math.floor(random.next() * 480))
const chains = { draftAhead: false, padding: false } as const

describe('a model with recurrent layers, between device and bridge', () => {
  it('answers as the reference, without drafts and with drafts that are rejected', async () => {
    const phrase = randomIds(6)
    const prompt = [...randomIds(30), ...phrase, ...randomIds(4), ...phrase.slice(0, 3)]
    const expected = await referenceAnswer(world.chain, prompt, greedy, 40, [])
    const plain = await world.answer({ prompt, maxTokens: 40 }, { ...chains, createDrafter: noDrafter })
    expect(plain.tokens).toEqual(expected)
    // The answer is in the prompt, so that drafts from it are accepted in part.
    const repeated = [...prompt, ...expected.slice(0, 20), ...prompt]
    const again = await referenceAnswer(world.chain, repeated, greedy, 40, [])
    const createDrafter = () => lookupDrafter()
    const { tokens, figures } = await world.answer({ prompt: repeated, maxTokens: 40 }, { ...chains, createDrafter })
    expect(tokens).toEqual(again)
    expect(figures.drafted).toBeGreaterThan(0)
  })

  it('resumes a cached prefix at any token', async () => {
    const prompt = randomIds(60)
    const prefixes = new PrefixMemory(systemClock)
    const overrides = { ...chains, createDrafter: noDrafter, prefixes }
    const { tokens } = await world.answer({ prompt, maxTokens: 20 }, overrides)
    await expect.poll(() => prefixes.find('app', [...prompt, 0])).toBeDefined()
    const next = [...prompt, ...tokens.slice(0, 7), ...randomIds(9)]
    const answer = await world.answer({ prompt: next, maxTokens: 16 }, overrides)
    expect(answer.tokens).toEqual(await referenceAnswer(world.chain, next, greedy, 16, []))
    expect(answer.figures.reusedTokens).toBeGreaterThanOrEqual(67)
  })

  it('returns the same bits where streams are preempted', async () => {
    const middle = world.model.part('middle')
    const ordinary = decodeFirst({ promptRows: 32, minPromptRows: 16, maxStepsSkipped: 4, decodingMs: 500 })
    let preempted = 0
    const preempting = (often: () => boolean): ServingPolicy => ({
      plan(state, nowMs) {
        const plan = ordinary.plan(state, nowMs)
        const candidates = [...state.waiting, ...state.idle].filter(({ residency }) => residency === 'resident')
        const preempt = candidates.filter(often).map(({ id }) => id)
        preempted += preempt.length
        if (preempt.length === 0) return plan
        return { ...plan, preempt, run: plan.run.filter(({ stream }) => !preempt.includes(stream)), lookAgainAtMs: nowMs }
      },
    })
    const converse = async (policy: ServingPolicy) => {
      const serving = testServing(middle, { policy, maxDecodeRows: 16 })
      const streams = await Promise.all(
        [0, 1, 2].map(async (at) => {
          const stream = await openStream(serving, `device-${at}`)
          const bits: number[][] = []
          for (let round = 0; round < 20; round++) {
            const base = stream.length
            const { states } = await stream.append({
              states: randomStates(1 + ((round + at) % 5), 64, 100 * at + round),
              select: 'all',
            })
            bits.push([...states.half])
            if (round > 3) stream.truncate(base + 1)
          }
          await stream.close()
          return bits
        }),
      )
      expect(serving.memory.usedBytes).toBe(0)
      return streams
    }
    const expected = await converse(ordinary)
    const own = seededRandom(9)
    expect(await converse(preempting(() => own.next() < 0.25))).toEqual(expected)
    expect(preempted).toBeGreaterThan(10)
  })
})
