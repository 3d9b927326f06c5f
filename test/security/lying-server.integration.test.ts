import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { streamAnswerFrom } from '../../core/wire/openai/client.ts'
import type { Spending } from '../../core/wire/protocol/spending.ts'
import { type Asked, endings, honest, type Manner, startBillingServer, usages } from '../../lab/bench/disco/billing-server.ts'
import { freePort } from '../../lab/cluster/free-port.ts'
import { postJson } from '../support/post-json.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = tempDir()
afterAll(() => dir[Symbol.dispose]())

const cap = 0.05
const prices = { prompt: 2 / 1e6, output: 20 / 1e6 }
/** Of the server's own instructions. */
const ownTokens = 40

/** Words are tokens, so that nobody can say that more or fewer came. */
const wordsOf = (text: string) => text.split(/\s+/).filter(Boolean).length
const promptTokens = ({ messages }: Asked) => ownTokens + messages.reduce((sum, { content }) => sum + wordsOf(content), 0)
/** A question asks for a number of words. */
const answer = ({ messages }: Asked) =>
  Array.from({ length: Number(/\d+/.exec(messages[0]!.content)![0]) }, (_, at) => ` word${at % 7}`)

async function worldOf(manner: (nth: number) => Manner) {
  const server = await startBillingServer({ prices, promptTokens, answer, manner, clock: systemClock })
  const agent = await startAgent({
    id: `phone-${await freePort()}`,
    stateDir: join(dir.path, String(await freePort())),
    bridges: [`mqtt://127.0.0.1:${await freePort()}`],
    dispatch: { mode: 'cloud' },
    apiPort: 0,
    logLevel: 'silent',
    server: { at: server.url, model: 'large', price: '2/20' },
    budget: { dollars: cap },
    limits: { serverRetries: 0, serverIdleS: 0.3 },
  })
  return {
    server,
    agent,
    spending: async () => ((await (await fetch(`${agent.apiUrl}/budget`)).json()) as Spending).server,
    async [Symbol.asyncDispose]() {
      await agent.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

async function ask({ apiUrl }: Agent, words: number, more: object) {
  const response = await postJson(`${apiUrl}/v1/chat/completions`, {
    messages: [{ role: 'user', content: `Write ${words} words about rivers and lamps.` }],
    ...more,
  })
  const body = (await response.json()) as { choices?: [{ message: { content: string } }] }
  return { status: response.status, text: body.choices?.[0].message.content ?? '' }
}

const manner = fc.record({
  perEvent: fc.constantFrom(1, 3, 25, 1_000),
  usage: fc.constantFrom(...usages),
  ending: fc.constantFrom(...endings),
  gapMs: fc.constantFrom(0, 3),
})

/** The reader leaves after so many events with text; resolves once it has. */
async function askAndLeave({ apiUrl }: Agent, words: number, events: number) {
  const leaving = new AbortController()
  const listeners = {
    onText() {
      events -= 1
      if (events <= 0) leaving.abort()
    },
  }
  const messages = [{ role: 'user' as const, content: `Write ${words} words about rivers and lamps.` }]
  const body = { messages, max_tokens: 2_000 }
  await streamAnswerFrom({ server: 'agent', url: apiUrl }, body, leaving.signal, listeners).catch((error: unknown) => {
    if (!leaving.signal.aborted && !(error instanceof BrimError)) throw error
  })
}

describe('a server that misreports everything', () => {
  it('never makes its owner pay for more than the budget, nor delivers more than max_tokens', async () => {
    const requests = fc.array(
      fc.record({
        words: fc.integer({ min: 1, max: 400 }),
        limit: fc.option(fc.integer({ min: 1, max: 300 })),
        leavesAfter: fc.option(fc.integer({ min: 1, max: 40 })),
      }),
      { minLength: 1, maxLength: 16 },
    )
    await fc.assert(
      // A server that sends more than it was asked for does so always: one that begins with it late can bill an answer that was left.
      fc.asyncProperty(
        fc.array(manner, { minLength: 1, maxLength: 5 }),
        fc.boolean(),
        requests,
        async (manners, exceeds, list) => {
          await using world = await worldOf((nth) => ({ ...manners[nth % manners.length]!, exceeds }))
          for (let round = 0; round < 3; round++) {
            const answers = await Promise.all(
              list.map(async ({ words, limit, leavesAfter }) => {
                if (leavesAfter === null)
                  return { limit, ...(await ask(world.agent, words, limit === null ? {} : { max_tokens: limit })) }
                await askAndLeave(world.agent, words, leavesAfter)
                return { limit, text: '' }
              }),
            )
            for (const { text, limit } of answers) expect(wordsOf(text)).toBeLessThanOrEqual(limit ?? 4_096)
          }
          await expect.poll(async () => (await world.spending()).reservedDollars).toBe(0)
          const { dollars } = await world.spending()
          expect(dollars).toBeLessThanOrEqual(cap * 1.0001)
          expect(world.server.dollars).toBeLessThanOrEqual(cap)
          // The books are rounded to four digits.
          if (manners.every(({ usage }) => usage === 'exact'))
            expect(dollars).toBeGreaterThanOrEqual(world.server.dollars * 0.999)
        },
      ),
      { numRuns: 12 },
    )
  }, 120_000)

  it('is paid for what it has written when a reader leaves, and hardly more', async () => {
    await using world = await worldOf(() => ({ ...honest, gapMs: 3 }))
    for (let nth = 0; nth < 4; nth++) await ask(world.agent, 20 + nth, { max_tokens: 100 })
    const [before, wireBefore] = [(await world.spending()).dollars!, world.server.dollars]
    for (let nth = 0; nth < 6; nth++) await askAndLeave(world.agent, 400, 10 + nth)
    await expect.poll(async () => (await world.spending()).reservedDollars).toBe(0)
    const [books, wire] = [(await world.spending()).dollars! - before, world.server.dollars - wireBefore]
    expect(books).toBeGreaterThanOrEqual(wire * 0.999)
    // In full, each of them would cost twelve times as much.
    expect(books).toBeLessThan(wire * 3)
  })

  it('is not asked beyond the budget by 200 requests at once', async () => {
    await using world = await worldOf(() => ({ ...honest, perEvent: 5 }))
    const answers = await Promise.all(Array.from({ length: 200 }, () => ask(world.agent, 250, { max_tokens: 300 })))
    const served = answers.filter(({ status }) => status === 200)
    expect(served.length).toBeGreaterThan(3)
    expect(served.length).toBeLessThan(200)
    expect(world.server.dollars).toBeLessThanOrEqual(cap)
    const { dollars } = await world.spending()
    expect(dollars! / world.server.dollars).toBeCloseTo(1, 3)
  }, 60_000)

  it('is counted as it has counted before, where it no longer tells', async () => {
    await using world = await worldOf((nth) => (nth < 6 ? { ...honest, perEvent: 4 } : { ...honest, perEvent: 4, usage: 'none' }))
    for (let nth = 0; nth < 6; nth++) await ask(world.agent, 20 + nth, { max_tokens: 100 })
    const [before, wireBefore] = [(await world.spending()).dollars!, world.server.dollars]
    for (let nth = 0; nth < 12; nth++) await ask(world.agent, 30 + 3 * nth, { max_tokens: 100 })
    const ratio = ((await world.spending()).dollars! - before) / (world.server.dollars - wireBefore)
    expect(ratio).toBeGreaterThan(0.95)
    expect(ratio).toBeLessThan(1.05)
  })
})
