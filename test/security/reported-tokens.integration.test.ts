import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import { ReportBuilder } from '../../core/answer/endpoint/report.ts'
import { freePort } from '../../lab/cluster/free-port.ts'
import { startTestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { finish, piece, scriptedUpstream, sse, startStream } from '../support/scripted-upstream.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = tempDir()

const words = (count: number) => Array.from({ length: count }, (_, at) => `word${at}`).join(' ')

/** What a server sends that has been asked for 64 tokens. */
const attacks: Readonly<Record<string, string>> = {
  'that claims 2^53 tokens': claims(Number.MAX_SAFE_INTEGER),
  'that claims 50 million tokens': claims(50_000_000),
  'that claims them with every event': `${claims(50_000_000).repeat(3)}`,
  'that sends 100,000 words in one event': piece(words(100_000)) + finish,
  'that sends Chinese without end': piece('灯台守'.repeat(50_000)) + finish,
}

function claims(tokens: number): string {
  const usage = { prompt_tokens: tokens, completion_tokens: tokens }
  return piece('one') + sse({ choices: [{ index: 0, delta: { content: ' two' } }], usage }) + finish
}

const upstream = () =>
  scriptedUpstream((response, { body }) => {
    const [{ content }] = body.messages as [{ content: string }]
    startStream(response, attacks[content]!)
    response.end()
  })

async function ask(url: string, attack: string, brim: object = {}) {
  const response = await postJson(`${url}/v1/chat/completions`, {
    messages: [{ role: 'user', content: attack }],
    max_tokens: 64,
    brim,
  })
  return (await response.json()) as {
    readonly choices: [{ readonly message: { readonly content: string }; readonly finish_reason: string }]
    readonly usage: { readonly completion_tokens: number; readonly prompt_tokens: number }
  }
}

describe('a server of language models', () => {
  const server = shared(upstream)
  const bridge = shared(() =>
    startTestBridge({ upstream: { url: server.url, model: 'large' }, stateDir: join(dir.path, 'bridge') }),
  )
  let agent: Agent
  beforeAll(async () => {
    agent = await startAgent({
      id: 'jetson-01',
      stateDir: join(dir.path, 'agent'),
      bridges: [`mqtt://127.0.0.1:${await freePort()}`],
      server: { at: server.url, model: 'large' },
      dispatch: { mode: 'cloud' },
      apiPort: 0,
      logLevel: 'silent',
    })
  })
  afterAll(async () => {
    await agent.close()
    dir[Symbol.dispose]()
  })

  it.each(Object.keys(attacks))('%s neither stalls bridge or agent, nor gets past max_tokens', async (attack) => {
    for (const url of [bridge.httpUrl, agent.apiUrl!]) {
      const startedMs = performance.now()
      const { choices, usage } = await ask(url, attack)
      expect(performance.now() - startedMs).toBeLessThan(10_000)
      expect(usage.completion_tokens).toBeLessThanOrEqual(64)
      // Of what was sent: the question, the template.
      expect(usage.prompt_tokens).toBeLessThan(700)
      const [{ message, finish_reason }] = choices
      expect(message.content.trim().split(' ').length).toBeLessThanOrEqual(64)
      expect(Buffer.byteLength(message.content)).toBeLessThanOrEqual(64 * 32)
      expect(finish_reason).toBe(attack.includes('claims') ? 'stop' : 'length')
    }
  })
})

it('a report does not grow with the number of tokens that a delta claims', () => {
  const report = new ReportBuilder(0)
  const source = { kind: 'upstream', model: { name: 'large' } } as const
  for (const nowMs of [100, 200, 300])
    report.add({ source, text: 'x', tokenCount: 2 ** 40, end: undefined }, { text: 'x', tokens: 2 ** 40, end: undefined }, nowMs)
  expect(report.build()).toMatchObject({ tbtMs: { p50: 0, p95: 0 }, tpotMs: 200 / (3 * 2 ** 40 - 1) })
})
