import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import type { AgentSettings } from '../../../agent/config.ts'
import { type Clock, systemClock } from '../../../core/kit/base/clock.ts'
import type { Spending } from '../../../core/wire/protocol/spending.ts'
import { freePort } from '../../../lab/cluster/free-port.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { buildSlmBundle } from '../../support/agent-world.ts'
import { askStreaming } from '../../support/ask-streaming.ts'
import { piece, scriptedUpstream, startStream, streamed } from '../../support/scripted-upstream.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
let slm: string
const agents: Agent[] = []
beforeAll(async () => {
  slm = await buildSlmBundle(dir.path)
})
afterEach(() => vi.useRealTimers())
afterAll(async () => {
  for (const agent of agents) await agent.close()
})

async function startDevice(id: string, settings: Partial<AgentSettings>, clock?: Clock): Promise<Agent> {
  const options = { apiPort: 0, threads: 1, logLevel: 'silent' as const, bridges: ['mqtt://127.0.0.1:1'], slms: [slm] }
  const agent = await startAgent({ id, stateDir: join(dir.path, id), ...options, ...settings }, clock)
  agents.push(agent)
  return agent
}

/** A dollar a token. */
const dear = { model: 'large', price: '1000000/1000000' }
const spendingAt = async (apiUrl: string) => (await (await fetch(`${apiUrl}/budget`)).json()) as Spending

describe('fifty requests at once on a device that holds one', () => {
  it('are answered one after the other, as many as may wait; the others are told', async () => {
    const agent = await startDevice('crowded', { limits: { slmAnswers: 1, slmWaiting: 5 } })
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => askStreaming(agent, { mode: 'local' }, { max_tokens: 50 })),
    )
    const refused = answers.flatMap(({ error }) => error ?? [])
    expect(refused.map(({ code }) => code)).toEqual(refused.map(() => 'QUEUE_FULL'))
    // More than can wait come before the first of them is answered.
    expect(refused.length).toBeGreaterThan(0)
    expect(answers.length - refused.length).toBeGreaterThanOrEqual(6)
    expect((await askStreaming(agent, { mode: 'local' }, { max_tokens: 4 })).error).toBeUndefined()
  })

  it('are answered by it even if their server is dead', async () => {
    const server = { at: `http://127.0.0.1:${await freePort()}/v1`, model: 'large' }
    const agent = await startDevice('crowded-alone', { server, limits: { slmWaiting: 50, serverRetries: 0 } })
    const asked = Array.from({ length: 50 }, () => askStreaming(agent, { mode: 'fast' }, { max_tokens: 4 }))
    const answers = await Promise.all(asked)
    expect(answers.map(({ error, sources }) => error ?? sources)).toEqual(answers.map(() => ['slm']))
  })
})

describe('a clock that jumps', () => {
  const hourMs = 3_600_000

  it('frees no budget, also where it is set ahead step by step', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    await using upstream = await scriptedUpstream(streamed('The', ' river'))
    const agent = await startDevice('jumping', { server: { at: upstream.url, ...dear }, budget: { dollars: 800, windowH: 1 } })
    const codeOf = async () => (await askStreaming(agent, { mode: 'cloud' })).error?.code
    const startMs = Date.now()
    const at = (ms: number) => vi.setSystemTime(startMs + ms)
    expect(await codeOf()).toBeUndefined()
    for (const hours of [0, -24, 0.5, 2, 0, 25, 50, 75, 0]) {
      at(hours * hourMs)
      expect(await codeOf()).toBe('BUDGET_EXHAUSTED')
    }
    at(-startMs)
    expect(await codeOf()).toBe('BUDGET_EXHAUSTED')
  })

  it.each([
    ['forward', 24 * hourMs],
    ['back', -24 * hourMs],
  ])('%s does not hold an answer that is delivered at a rate', async (direction, ms) => {
    let offsetMs = 0
    const clock: Clock = { nowMs: () => systemClock.nowMs() + offsetMs, sleep: systemClock.sleep }
    const agent = await startDevice(`jumps-${direction}`, {}, clock)
    const { text, error } = await askStreaming(agent, { mode: 'local', tokens_per_s: 20 }, { max_tokens: 12 }, (pieces) => {
      if (pieces === 2) offsetMs += ms
    })
    expect(error).toBeUndefined()
    expect(text).toBe((await askStreaming(agent, { mode: 'local' }, { max_tokens: 12 })).text)
  })
})

it('an agent that is killed in the middle of an answer has spent what the answer had reserved', async () => {
  await using upstream = await scriptedUpstream((response) => startStream(response, ...Array<string>(12).fill(piece(' word'))))
  const command = ['agent', 'run', '--slm', slm, '--id', 'killed', '--state-dir', join(dir.path, 'killed'), '--api-port', '0']
  const server = ['--server', upstream.url, '--server-model', dear.model, '--server-price', dear.price, '--budget-dollars', '800']
  const start = () => startBrim([...command, ...server, '--bridge', 'mqtt://127.0.0.1:1', '--threads', '1'], { env: process.env })
  const first = await start()
  const apiUrl = String(first.ready.apiUrl)
  const cut = await askStreaming({ apiUrl }, { mode: 'cloud', tokens_per_s: 0 }, { max_tokens: 50 }, (pieces) => {
    if (pieces === 10) process.kill(first.pid, 'SIGKILL')
  })
  expect(cut).toMatchObject({ text: expect.stringMatching(/^( word){10,12}$/), error: { code: 'LINK_LOST' } })
  await first.stop()
  const again = await start()
  try {
    const device = { apiUrl: String(again.ready.apiUrl) }
    const { server: spent } = await spendingAt(device.apiUrl)
    expect(spent).toMatchObject({ reservedDollars: 0, maxDollars: 800 })
    expect(spent.dollars).toBeGreaterThanOrEqual(50)
    expect((await askStreaming(device, { mode: 'cloud' })).error).toMatchObject({ code: 'BUDGET_EXHAUSTED' })
    const { sources, report } = await askStreaming(device, { mode: 'fast' })
    expect([sources, report.disco.exhausted]).toEqual([['slm'], expect.stringContaining('the server has spent')])
  } finally {
    await again.stop()
  }
})
