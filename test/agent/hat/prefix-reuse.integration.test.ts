import { describe, expect, it } from 'vitest'
import type { HatOptions } from '../../../agent/hat/hat-options.ts'
import { PrefixMemory } from '../../../agent/hat/prefix-memory.ts'
import type { LinkSessionOptions } from '../../../agent/link/link-session.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { alteredPart } from '../../support/altered-part.ts'
import { healthOf } from '../../support/bridge.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'

const random = seededRandom(31)
const randomIds = (count: number) => Array.from({ length: count }, () => Math.floor(random.next() * 160))
const settings = { chunkTokens: 16, draftLimit: 6 }

const world = shared(() => startHatWorld({ settings }))

const reference = (ids: readonly number[], maxTokens: number, of = world) => referenceAnswer(of.chain, ids, greedy, maxTokens, [])

/** A first turn, whose prefix the bridge caches. */
async function firstTurn(prompt: readonly number[], of = world) {
  const prefixes = new PrefixMemory(systemClock)
  const { tokens } = await of.answer({ prompt, maxTokens: 20 }, { prefixes })
  return { prefixes, conversation: [...prompt, ...tokens] }
}

describe('the next turn of a conversation', () => {
  it('sends only the new rows, and yields the tokens of the reference', async () => {
    const { prefixes, conversation } = await firstTurn(randomIds(60))
    const prompt = [...conversation, ...randomIds(10)]
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 16 }, { prefixes })
    expect(tokens).toEqual(await reference(prompt, 16))
    // The last token of the first answer was never fed.
    expect(figures.reusedTokens).toBe(conversation.length - 1)
    const afresh = await world.answer({ prompt, maxTokens: 16 })
    expect(afresh.figures.reusedTokens).toBe(0)
    expect(afresh.figures.bytesUp - figures.bytesUp).toBeGreaterThan(0.9 * figures.reusedTokens * 64 * 2)
  })

  it('computes only the new rows, also where the bridge has lost the old ones', async () => {
    const steps: number[] = []
    const input = alteredPart(world.model.part('input'), {
      before: ([item]) => steps.push('ids' in item! ? item.ids.length : 0),
    })
    const prefixes = new PrefixMemory(systemClock)
    const first = randomIds(60)
    const { tokens: answer } = await world.answer({ prompt: first, maxTokens: 20 }, { prefixes, input })
    for (const open of [undefined, (signal: AbortSignal) => world.link.open(world.model.manifest.modelId, signal)]) {
      steps.length = 0
      const prompt = [...first, ...answer, ...randomIds(10)]
      const { tokens } = await world.answer({ prompt, maxTokens: 4 }, { prefixes, input, ...(open && { open }) })
      expect(tokens).toEqual(await reference(prompt, 4))
      // The last token of an answer is fed by the next one.
      expect(steps[0]).toBeLessThanOrEqual(11)
    }
    prefixes.release()
  })

  it('is the reference where the bridge has lost what was to be resumed, and its rows came before it said so', async () => {
    const { prefixes, conversation } = await firstTurn(randomIds(60))
    const prompt = [...conversation, ...randomIds(40)]
    const forgotten: HatOptions['open'] = (signal, options) =>
      world.link.open(world.model.manifest.modelId, signal, {
        ...options,
        ...(options?.resume && { resume: { ...options.resume, handle: '0'.repeat(options.resume.handle.length) } }),
      })
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 16 }, { prefixes, open: forgotten })
    expect(tokens).toEqual(await reference(prompt, 16))
    expect(figures).toMatchObject({ reusedTokens: 0, failovers: 0 })
  })

  it('resumes over many turns', async () => {
    let { prefixes, conversation } = await firstTurn(randomIds(20))
    for (let turn = 0; turn < 4; turn++) {
      const prompt = [...conversation, ...randomIds(5)]
      const { tokens, figures } = await world.answer({ prompt, maxTokens: 8 }, { prefixes })
      expect(tokens).toEqual(await reference(prompt, 8))
      expect(figures.reusedTokens).toBe(conversation.length - 1)
      conversation = [...prompt, ...tokens]
    }
  })

  it('may depart from the conversation at any token', async () => {
    const { prefixes, conversation } = await firstTurn(randomIds(60))
    const prompt = [...conversation.slice(0, 40), ...randomIds(12)]
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 16 }, { prefixes })
    expect(tokens).toEqual(await reference(prompt, 16))
    expect(figures.reusedTokens).toBeGreaterThanOrEqual(40)
  })

  it('computes at least one position when the prompt is repeated', async () => {
    const prompt = randomIds(60)
    const { prefixes } = await firstTurn(prompt)
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 16 }, { prefixes })
    expect(tokens).toEqual(await reference(prompt, 16))
    expect(figures.reusedTokens).toBe(59)
  })

  it('leaves the cached prefixes of other conversations in place', async () => {
    const system = randomIds(24)
    const prefixes = new PrefixMemory(systemClock)
    const conversations = [0, 1].map(() => [...system, ...randomIds(60)])
    for (let turn = 0; turn < 3; turn++)
      for (const [at, conversation] of conversations.entries()) {
        const prompt = [...conversation, ...randomIds(4)]
        const { tokens, figures } = await world.answer({ prompt, maxTokens: 6 }, { prefixes })
        expect(tokens).toEqual(await reference(prompt, 6))
        if (turn > 0) expect(figures.reusedTokens).toBe(conversation.length - 1)
        conversations[at] = [...prompt, ...tokens]
      }
  })

  it("never resumes another client's prefix", async () => {
    const { prefixes, conversation } = await firstTurn(randomIds(60))
    const { figures } = await world.answer({ client: 'other', prompt: conversation, maxTokens: 4 }, { prefixes })
    expect(figures.reusedTokens).toBe(0)
  })

  it('may run several times at once: one session takes the KV over, the others copy it', async () => {
    const { prefixes, conversation } = await firstTurn(randomIds(60))
    const prompts = Array.from({ length: 4 }, () => [...conversation, ...randomIds(6)])
    const answers = await Promise.all(prompts.map((prompt) => world.answer({ prompt, maxTokens: 12 }, { prefixes })))
    for (const [at, { tokens, figures }] of answers.entries()) {
      expect(tokens).toEqual(await reference(prompts[at]!, 12))
      expect(figures.reusedTokens).toBe(conversation.length - 1)
    }
  })

  it('survives a link failure: the new session receives all rows, the prefix included', async () => {
    const { prefixes, conversation } = await firstTurn(randomIds(60))
    const prompt = [...conversation, ...randomIds(10)]
    let frames = 0
    const broken = {
      prefixes,
      async open(signal: AbortSignal, options?: LinkSessionOptions) {
        const session = await world.link.open(world.model.manifest.modelId, signal, options)
        const exchange = session.exchange.bind(session)
        session.exchange = async (base, rows, want) => {
          frames += 1
          if (frames === 5) {
            session.close()
            throw new BrimError('LINK_LOST', 'cut')
          }
          return exchange(base, rows, want)
        }
        return session
      },
    }
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 16 }, broken)
    expect(tokens).toEqual(await reference(prompt, 16))
    expect(figures).toMatchObject({ failovers: 1, reusedTokens: conversation.length - 1 })
  })
})

describe('a bridge without a prefix cache', () => {
  it('receives every prompt whole', async () => {
    await using forgetful = await startHatWorld({ bundle: world.bundle, settings: { ...settings, prefixKeepS: 0 } })
    const prefixes = new PrefixMemory(systemClock)
    const prompt = randomIds(40)
    await forgetful.answer({ prompt, maxTokens: 4 }, { prefixes })
    const { figures } = await forgetful.answer({ prompt, maxTokens: 4 }, { prefixes })
    expect(figures.reusedTokens).toBe(0)
    const kvBytes = async () => {
      const health = await healthOf(forgetful.bridge)
      return health.kvBytes + health.keptKvBytes
    }
    await expect.poll(kvBytes).toBe(0)
  })

  it('evicts cached prefixes before it rejects a session', async () => {
    // Room for one session of 64 positions, no more.
    const perPosition = 2 * 3 * 2 * 16 * 4
    const small = { ...settings, kvBudgetBytes: 64 * perPosition, limits: { deviceKvPercent: 100 } }
    await using tight = await startHatWorld({ bundle: world.bundle, settings: small })
    const { prefixes } = await firstTurn(randomIds(30), tight)
    const prompt = randomIds(30)
    const { tokens } = await tight.answer({ prompt, maxTokens: 8 }, { prefixes })
    expect(tokens).toEqual(await reference(prompt, 8, tight))
  })
})
