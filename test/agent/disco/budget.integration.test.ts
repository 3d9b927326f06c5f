import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from '../../../agent/agent.ts'
import type { AgentSettings } from '../../../agent/config.ts'
import { spendingTables } from '../../../agent/disco/spending-ledger.ts'
import { run } from '../../../brim.ts'
import type { SideCost } from '../../../core/answer/endpoint/figures.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import type { Spending } from '../../../core/wire/protocol/spending.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { captureIo } from '../../support/captured-io.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'

/** A dollar a token, so that costs are counts. */
const server = { at: 'bridge', price: '1000000/1000000' } as const

const world = shared(startAgentWorld)
let slm: string
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
})

async function startAgent(id: string, settings: Partial<AgentSettings> = {}): Promise<Agent> {
  const agent = await world.startAgent({ id, slms: [slm], server, ...settings })
  await expect.poll(async () => (await fetch(`${agent.apiUrl}/ready`)).status).toBe(200)
  return agent
}

async function ask({ apiUrl }: Agent, mode: string, more: object = {}) {
  const messages = [{ role: 'user', content: 'Where is the river?' }]
  const response = await postJson(`${apiUrl}/v1/chat/completions`, {
    messages,
    temperature: 0,
    max_tokens: 12,
    brim: { mode, ignore_eos: true, ...more },
  })
  const { brim, error } = (await response.json()) as {
    readonly brim: { readonly disco: { readonly exhausted: string | null; readonly cost: Record<'device' | 'server', SideCost> } }
    readonly error?: { readonly code: string; readonly message: string; readonly hint: string }
  }
  return { status: response.status, disco: brim?.disco, error, retryAfterS: Number(response.headers.get('retry-after')) }
}
const spendingOf = async ({ apiUrl }: Agent) => (await (await fetch(`${apiUrl}/budget`)).json()) as Spending

describe('the budget of an agent', () => {
  it('counts what each side has processed, in tokens, dollars and joules', async () => {
    const agent = await startAgent('counting')
    const { disco: local } = await ask(agent, 'local')
    const { promptTokens } = local.cost.device
    expect(local.cost).toMatchObject({
      device: { tokens: 12, joules: expect.any(Number), energy: 'flops' },
      server: { promptTokens: 0, tokens: 0, dollars: 0 },
    })
    expect(promptTokens).toBeGreaterThan(0)
    const { disco: cloud } = await ask(agent, 'cloud')
    expect(cloud.cost.server).toEqual({ promptTokens, tokens: 12, dollars: expect.closeTo(promptTokens + 12) })
    const { disco: hat } = await ask(agent, 'private')
    expect(hat.cost.server).toMatchObject({ promptTokens, tokens: 12, dollars: null, joules: null })
    const spending = await spendingOf(agent)
    expect(spending).toMatchObject({
      server: { promptTokens, tokens: 12, dollars: expect.closeTo(promptTokens + 12), reservedDollars: 0, maxDollars: null },
      slm: {
        promptTokens,
        tokens: 12,
        energySource: 'flops',
        joules: expect.closeTo(local.cost.device.joules!),
        reservedJoules: 0,
      },
      hat: { promptTokens, tokens: 12 },
      auto: { promptTokens: 0, deviceShare: null },
    })
    await ask(agent, 'auto')
    const { auto } = await spendingOf(agent)
    expect(auto.promptTokens).toBe(promptTokens)
    expect(auto.deviceShare! + auto.serverShare!).toBeGreaterThanOrEqual(1)
  })

  it('ends at the server, not on the device, and survives a restart', async () => {
    const settings = { budget: { dollars: 65 } }
    const first = await startAgent('limited', settings)
    // Its prompt of 59 tokens leaves 6 for the answer.
    const { status: begun, disco: cut } = await ask(first, 'cloud')
    expect([begun, cut.cost.server.tokens]).toEqual([200, 6])
    expect(cut.exhausted).toBe('the budget for 24 h allows 6 tokens of this answer: the server has spent $0 of $65')
    const refused = await ask(first, 'cloud')
    expect(refused).toMatchObject({
      status: 429,
      error: {
        code: 'BUDGET_EXHAUSTED',
        message: expect.stringMatching(/^the budget for 24 h is exhausted: the server has spent \$\d+ of \$65$/),
        hint: expect.stringContaining('brim agent budget'),
      },
    })
    expect(refused.retryAfterS).toBeGreaterThan(23 * 3_600)
    await first.close()

    const second = await startAgent('limited', settings)
    expect((await ask(second, 'cloud')).status).toBe(429)
    const { status, disco } = await ask(second, 'fast')
    expect(status).toBe(200)
    expect(disco).toMatchObject({ exhausted: refused.error!.message, cost: { server: { tokens: 0 }, device: { tokens: 12 } } })
    expect((await ask(second, 'cloud', { fallback: 'slm' })).disco.cost.device.tokens).toBe(12)
    expect((await ask(second, 'private')).disco.exhausted).toBeNull()
    const { io, out } = captureIo({})
    expect(await run(['agent', 'budget', '--api', second.apiUrl], io)).toBe(0)
    expect(out()).toMatch(/^server +\$\d+ of \$65/m)
  })

  it('counts what an agent that was killed had reserved', async () => {
    const agent = await startAgent('killed', { budget: { dollars: 100 } })
    await agent.close()
    // As a kill in the middle of an answer leaves it.
    const store = openDatabase(join(world.dir, 'killed', 'spending.sqlite'), [spendingTables])
    const { ms } = store.prepare<[], { ms: number }>('SELECT coalesce(max(ms), 0) AS ms FROM spending_time').get()!
    store
      .prepare(
        'INSERT INTO reserved (at_ms, account, prompt_tokens, auto_prompt_tokens, tokens, dollars, joules) VALUES (?, ?, 9, 0, 90, 99, 0)',
      )
      .run(Math.floor(ms), 'server')
    store.close()
    const again = await startAgent('killed', { budget: { dollars: 100 } })
    expect(await spendingOf(again)).toMatchObject({ server: { dollars: 99, tokens: 90, reservedDollars: 0 } })
    expect((await ask(again, 'cloud')).status).toBe(429)
  })

  it('lets a device without energy left use the server, and refuses where the owner wants that', async () => {
    const agent = await startAgent('tired', { budget: { joules: 0.0016 } })
    expect((await ask(agent, 'local')).status).toBe(200)
    expect((await ask(agent, 'local')).error!.message).toContain('the small model has spent')
    expect((await ask(agent, 'fast')).disco.cost).toMatchObject({ device: { tokens: 0 }, server: { tokens: 12 } })
    const strict = await startAgent('strict', { budget: { joules: 0.0016, whenExhausted: 'refuse' } })
    expect((await ask(strict, 'local')).status).toBe(200)
    expect((await ask(strict, 'fast')).status).toBe(429)
  })

  it('frees what an answer had reserved whose client leaves, and counts what was written', async () => {
    const agent = await startAgent('left', { budget: { dollars: 10_000 } })
    const leaving = new AbortController()
    const response = await postJson(
      `${agent.apiUrl}/v1/completions`,
      {
        prompt: 'The river',
        max_tokens: 200,
        stream: true,
        brim: { mode: 'cloud', ignore_eos: true, tokens_per_s: 2 },
      },
      {},
      leaving.signal,
    )
    await response.body!.getReader().read()
    expect((await spendingOf(agent)).server.reservedDollars).toBeGreaterThan(100)
    leaving.abort()
    await expect.poll(async () => (await spendingOf(agent)).server.reservedDollars).toBe(0)
    const { tokens, dollars, promptTokens } = (await spendingOf(agent)).server
    expect(tokens).toBeGreaterThan(0)
    expect(dollars).toBeCloseTo(tokens! + promptTokens!)
  })

  it('holds when fifty requests come at once', async () => {
    const agent = await startAgent('crowded', { budget: { dollars: 800 } })
    // What answers are expected to cost is learned from one.
    await ask(agent, 'cloud')
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(agent, 'cloud')))
    const served = answers.filter(({ status }) => status === 200).length
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(50 - served)
    const { server: spent } = await spendingOf(agent)
    expect(spent.dollars).toBeLessThanOrEqual(800)
    expect(spent.dollars).toBeGreaterThan(700)
    expect(spent.reservedDollars).toBe(0)
  })
})

it('brim device show has the spending of a device', async () => {
  const agent = await startAgent('shown', { telemetryS: 1, budget: { dollars: 500 } })
  await ask(agent, 'cloud')
  const shown = async () => {
    const { io, out } = captureIo()
    await run(['device', 'show', 'shown', '--bridge-url', world.bridge.httpUrl], io)
    return out()
  }
  await expect.poll(shown, { interval: 200 }).toMatch(/server cost +\$\d\d/)
  expect(await shown()).toMatch(/server max +\$500/)
})
