import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import type { AgentSettings } from '../../agent/config.ts'
import type { Spending } from '../../core/wire/protocol/spending.ts'
import { freePort } from '../../lab/cluster/free-port.ts'
import { postJson } from '../support/post-json.ts'
import { finish, piece, type Received, scriptedUpstream, sse, startStream } from '../support/scripted-upstream.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = tempDir()
afterAll(() => dir[Symbol.dispose]())

const budget = 0.05
const prices = { prompt: 2 / 1e6, output: 20 / 1e6 }
const settings = { server: { price: '2/20' }, budget: { dollars: budget } }

/**
 * A server that bills: a token for each byte of the prompt and 300 of its own instructions, and what it writes. It sends many tokens
 * with an event, goes on where a client leaves, and writes 2,000 tokens to a long question.
 */
async function billingServer({ tells = true } = {}) {
  let dollars = 0
  const server = await scriptedUpstream(async (response, { body }) => {
    const prompt = 300 + Buffer.byteLength(questionIn(body))
    const wanted = questionIn(body).startsWith('long') ? 2_000 : 5
    const tokens = Math.min(wanted, (body.max_tokens as number | undefined) ?? Number.POSITIVE_INFINITY)
    dollars += prices.prompt * prompt + prices.output * tokens
    startStream(response)
    for (let at = 0; at < tokens; at += 25) {
      response.write(piece('word '.repeat(Math.min(25, tokens - at))))
      if (wanted > 5) await new Promise((turn) => setImmediate(turn))
    }
    if (tells) response.write(sse({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: tokens } }))
    response.end(finish)
  })
  return {
    url: server.url,
    requests: server.requests,
    /** What its client has to pay. */
    get dollars() {
      return dollars
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

const questionIn = ({ messages }: Received['body']) => (messages as [{ content: string }])[0].content

let agents = 0
async function agentAt(url: string, more: Partial<AgentSettings> = {}): Promise<Agent> {
  agents += 1
  return startAgent({
    id: `jetson-${agents}`,
    stateDir: join(dir.path, `${agents}`),
    bridges: [`mqtt://127.0.0.1:${await freePort()}`],
    dispatch: { mode: 'cloud' },
    apiPort: 0,
    logLevel: 'silent',
    ...settings,
    server: { at: url, model: 'large', ...settings.server },
    ...more,
  })
}

const ask = ({ apiUrl }: Agent, question: string, more: object = {}, signal?: AbortSignal) =>
  postJson(`${apiUrl}/v1/chat/completions`, { messages: [{ role: 'user', content: question }], ...more }, {}, signal)

async function statusesOf(agent: Agent, count: number, question: string, more: object = {}): Promise<number[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const response = await ask(agent, question, more)
      await response.text()
      return response.status
    }),
  )
}

const spendingOf = async ({ apiUrl }: Agent) => (await (await fetch(`${apiUrl}/budget`)).json()) as Spending
const served = (statuses: readonly number[]) => statuses.filter((status) => status === 200).length

describe('the dollars of a budget', () => {
  it('are not exceeded by fifty requests at once', async () => {
    await using server = await billingServer()
    const agent = await agentAt(server.url)
    try {
      const statuses = await statusesOf(agent, 50, 'long one', { max_tokens: 200 })
      expect(served(statuses)).toBeGreaterThan(5)
      expect(statuses.filter((status) => status === 429)).toHaveLength(50 - served(statuses))
      expect(server.dollars).toBeLessThanOrEqual(budget)
      const { dollars, reservedDollars } = (await spendingOf(agent)).server
      expect(reservedDollars).toBe(0)
      // To the cent: its own instructions and each token of an event are counted.
      expect(dollars).toBeCloseTo(server.dollars, 5)
    } finally {
      await agent.close()
    }
  })

  it('are not exceeded by long answers after many short ones', async () => {
    await using server = await billingServer()
    const agent = await agentAt(server.url)
    try {
      for (let at = 0; at < 30; at++) expect((await statusesOf(agent, 1, 'short'))[0]).toBe(200)
      const before = server.dollars
      const statuses: number[] = []
      for (let at = 0; at < 10; at++) statuses.push(...(await statusesOf(agent, 20, 'long')))
      expect(served(statuses)).toBeGreaterThan(0)
      expect(server.dollars).toBeGreaterThan(before)
      expect(server.dollars).toBeLessThanOrEqual(budget)
      expect((await spendingOf(agent)).server.dollars).toBeCloseTo(server.dollars, 5)
    } finally {
      await agent.close()
    }
  })

  it('are not exceeded by clients that leave, at a server that goes on', async () => {
    await using server = await billingServer()
    const agent = await agentAt(server.url)
    try {
      for (let at = 0; at < 20; at++) {
        const leaving = new AbortController()
        const response = await ask(agent, 'long', { stream: true, max_tokens: 400 }, leaving.signal).catch(() => undefined)
        await response?.body?.getReader().read()
        leaving.abort()
      }
      await expect.poll(async () => (await spendingOf(agent)).server.reservedDollars).toBe(0)
      expect(server.requests.length).toBeLessThan(20)
      expect(server.dollars).toBeLessThanOrEqual(budget)
      expect((await spendingOf(agent)).server.dollars).toBeGreaterThanOrEqual(Number(server.dollars.toPrecision(3)) * 0.999)
    } finally {
      await agent.close()
    }
  })

  it('are not exceeded at a server that tells no count, nor by its failures', async () => {
    await using quiet = await billingServer({ tells: false })
    const agent = await agentAt(quiet.url)
    try {
      for (let at = 0; at < 40; at++) await statusesOf(agent, 1, 'short', { max_tokens: 100 })
      expect(quiet.dollars).toBeLessThanOrEqual(budget)
      expect((await spendingOf(agent)).server.dollars).toBeGreaterThan(quiet.dollars)
    } finally {
      await agent.close()
    }
    // It is paid for answers that it breaks off, and not for those that it refuses. No attempt follows one that is paid.
    let attempts = 0
    await using failing = await scriptedUpstream((response) => {
      attempts += 1
      if (attempts <= 3) return void response.writeHead(503, { 'retry-after': '0' }).end()
      startStream(response, ': hello\n\n')
      response.end()
    })
    const other = await agentAt(failing.url, { limits: { serverRetries: 3 } })
    try {
      expect(await statusesOf(other, 1, 'short', { max_tokens: 100 })).toEqual([502])
      expect(attempts).toBe(4)
      const once = (await spendingOf(other)).server.dollars!
      expect(once).toBeGreaterThan(100 * prices.output)
      expect(once).toBeLessThan(100 * prices.output + 700 * prices.prompt)
    } finally {
      await other.close()
    }
  })
})
