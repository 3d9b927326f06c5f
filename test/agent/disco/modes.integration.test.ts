import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from '../../../agent/agent.ts'
import { type AgentWorld, buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'

let world: AgentWorld
let slm: string
beforeAll(async () => {
  world = await startAgentWorld()
  slm = await buildSlmBundle(world.dir)
})
afterAll(() => world[Symbol.asyncDispose]())

interface Report {
  readonly mode: string
  readonly sources: readonly { readonly source: string; readonly model: string; readonly tokens: number }[]
  readonly disco: { readonly mode: string; readonly winner: string; readonly constrained: string | null }
}
interface Answer {
  readonly status: number
  readonly text: string
  readonly report: Report
  readonly error?: { readonly message: string; readonly param: string; readonly hint: string }
}

async function ask({ apiUrl }: Agent, brim: object, more: object = {}): Promise<Answer> {
  const body = { messages: [{ role: 'user', content: 'Where is the river?' }], temperature: 0, max_tokens: 12, brim, ...more }
  const response = await fetch(`${apiUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const {
    choices,
    brim: report,
    error,
  } = (await response.json()) as {
    choices?: [{ message: { content: string } }]
    brim: Report
    error?: Answer['error']
  }
  return { status: response.status, text: choices?.[0].message.content ?? '', report, ...(error && { error }) }
}
const sourcesOf = ({ report }: Answer) => report.sources.map(({ source }) => source)

describe('an agent with a small model, whose server is its bridge', () => {
  let agent: Agent
  beforeAll(async () => {
    agent = await world.startAgent({ id: 'phone', slms: [slm], server: { at: 'bridge', price: '1/2' } })
  })

  it('answers in each mode by the models of that mode', async () => {
    const privately = await ask(agent, {})
    expect(privately).toMatchObject({ status: 200, report: { disco: { mode: 'private', winner: 'server' } } })
    expect(sourcesOf(privately)).toEqual(['hat'])
    const local = await ask(agent, { mode: 'local' })
    expect(sourcesOf(local)).toEqual(['slm'])
    const cloud = await ask(agent, { mode: 'cloud' })
    expect(sourcesOf(cloud)).toEqual(['bridge'])
    // HAT and the bridge compute the same model.
    expect(cloud.text).toBe(privately.text)
    for (const mode of ['cheap', 'fast', 'auto']) {
      const answer = await ask(agent, { mode })
      expect(answer).toMatchObject({ status: 200, report: { disco: { mode } } })
    }
  })
})
