import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { failing, piece, scriptedUpstream, startStream, streamed } from '../../support/scripted-upstream.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

type Upstream = Awaited<ReturnType<typeof scriptedUpstream>>

const dir = tempDir()
const upstream = shared(() => scriptedUpstream(streamed('In the', ' mountains.')))
/** Beside a bundle. */
let both: TestBridge
beforeAll(async () => {
  const bundle = await buildTextBundle(dir.path)
  both = await startTestBridge({ bundle, upstream: { url: upstream.url, model: 'large' }, stateDir: join(dir.path, 'both') })
})
afterAll(async () => {
  await both.close()
  dir[Symbol.dispose]()
})

const post = ({ httpUrl }: TestBridge, fields: object) =>
  postJson(`${httpUrl}/v1/chat/completions`, {
    messages: [{ role: 'user', content: 'Where does the river rise?' }],
    max_tokens: 8,
    ...fields,
  })

async function withBridge(
  ...[scripts, use]: [Parameters<typeof scriptedUpstream>, (bridge: TestBridge, upstream: Upstream) => Promise<void>]
) {
  await using server = await scriptedUpstream(...scripts)
  const settings = { upstream: { url: server.url, model: 'large' }, stateDir: join(dir.path, `${Math.random()}`) }
  await using bridge = await startTestBridge({ ...settings, limits: { upstreamRetries: 0, upstreamRequests: 3 } })
  await use(bridge, server)
}

describe('an upstream beside a bundle', () => {
  it('is one of the models, which requests name', async () => {
    const models = (await (await fetch(`${both.httpUrl}/v1/models`)).json()) as { data: { id: string }[] }
    expect(models.data.map(({ id }) => id)).toEqual(['tiny-llama', 'large', 'brim'])
    const answerOf = async (fields: object) => (await (await post(both, fields)).json()) as Record<string, unknown>
    expect(await answerOf({ model: 'large' })).toMatchObject({
      model: 'large',
      choices: [{ message: { content: 'In the mountains.' }, finish_reason: 'stop' }],
      // A server that does not count has sent at least a token for each word.
      usage: { prompt_tokens: 0, completion_tokens: 3, total_tokens: 3 },
      brim: { mode: 'upstream', sources: [{ source: 'upstream', model: 'large', tokens: 3 }] },
    })
    expect(await answerOf({ model: 'tiny-llama' })).toMatchObject({ model: 'tiny-llama', brim: { mode: 'bridge' } })
    expect(await answerOf({})).toMatchObject({ brim: { mode: 'bridge' } })
  })

  it('streams, and refuses what it cannot report', async () => {
    const events = await (await post(both, { model: 'large', stream: true })).text()
    expect(events).toContain('"content":"In the"')
    expect(events.trimEnd().endsWith('data: [DONE]')).toBe(true)
    const refused = await post(both, { model: 'large', logprobs: true })
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: 'REQUEST_INVALID', param: 'logprobs' } }])
    const ids = await post(both, { model: 'large', return_token_ids: true })
    expect([ids.status, await ids.json()]).toMatchObject([400, { error: { param: 'return_token_ids' } }])
  })
})

describe('an upstream in place of a bundle', () => {
  it('answers requests that name no model', async () => {
    await withBridge([streamed('yes')], async (bridge) => {
      const { choices } = (await (await post(bridge, {})).json()) as { choices: { message: { content: string } }[] }
      expect(choices[0]?.message.content).toBe('yes')
    })
  })

  it('passes its limits on to clients', async () => {
    await withBridge([failing(429, { 'retry-after': '7' })], async (bridge) => {
      const response = await post(bridge, {})
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7'])
      expect(await response.json()).toMatchObject({ error: { code: 'QUEUE_FULL' } })
    })
  })

  it('that fails before the first token is a status, later an event, without the address of the server', async () => {
    const broken: Parameters<typeof scriptedUpstream>[0] = (response) => {
      startStream(response, piece('one'))
      setTimeout(() => response.destroy(), 20)
    }
    await withBridge([failing(500), broken], async (bridge, server) => {
      const response = await post(bridge, {})
      const text = await response.text()
      expect([response.status, text]).toEqual([502, expect.stringContaining('UPSTREAM_FAILED')])
      const events = await (await post(bridge, { stream: true })).text()
      expect(events).toContain('"content":"one"')
      expect(events).toContain('"code":"UPSTREAM_FAILED"')
      expect(events).not.toContain('[DONE]')
      expect(text + events).not.toContain(new URL(server.url).host)
    })
  })

  it('loses its connection when the client disconnects', async () => {
    const endless: Parameters<typeof scriptedUpstream>[0] = (response) => startStream(response, piece('one'))
    await withBridge([endless], async (bridge, server) => {
      const response = await post(bridge, { stream: true })
      const reader = response.body!.getReader()
      await reader.read()
      await reader.cancel()
      await expect.poll(() => server.connections).toBe(0)
    })
  })
})

describe('several answers at once, of which one fails midway,', () => {
  type Script = Parameters<typeof scriptedUpstream>[0]
  const endless: Script = (response) => startStream(response, piece('one'))
  const breaking: Script = (response) => {
    startStream(response, piece('two'))
    setTimeout(() => response.destroy(), 50)
  }
  const refusing: Script = (response) => void setTimeout(() => response.writeHead(500).end(), 50)

  it.each([
    ['after its first token', breaking],
    ['before it', refusing],
  ])('are a failure as a whole, %s: the others end', async (_, failure) => {
    await withBridge([endless, failure, endless, streamed('yes')], async (bridge, server) => {
      const response = await post(bridge, { n: 3 })
      expect([response.status, await response.json()]).toMatchObject([502, { error: { code: 'UPSTREAM_FAILED' } }])
      await expect.poll(() => server.connections).toBe(0)
      expect(server.requests).toHaveLength(3)
      expect(await (await post(bridge, {})).json()).toMatchObject({ choices: [{ message: { content: 'yes' } }] })
    })
  })

  it.each([
    ['after its first token', breaking],
    ['before it', refusing],
  ])('end a stream with one error and no end mark, %s', async (_, failure) => {
    await withBridge([endless, failure, streamed('a', 'b'), streamed('yes')], async (bridge, server) => {
      const response = await post(bridge, { n: 3, stream: true, stream_options: { include_usage: true } })
      const events = (await response.text())
        .trimEnd()
        .split('\n\n')
        .map((event) => JSON.parse(event.replace(/^(id:.*\n)?data: /, '')) as StreamedEvent)
      expect(response.status).toBe(200)
      const ended = events.flatMap(({ choices = [] }) => choices.filter(({ finish_reason }) => finish_reason !== null))
      expect(ended).toMatchObject([{ index: expect.any(Number), finish_reason: 'stop' }])
      expect(events.filter(({ error }) => error)).toEqual([events.at(-1)])
      expect(events.at(-1)).toMatchObject({ error: { code: 'UPSTREAM_FAILED', type: 'server_error' } })
      await expect.poll(() => server.connections).toBe(0)
      expect(await (await post(bridge, {})).json()).toMatchObject({ choices: [{ message: { content: 'yes' } }] })
    })
  })
})

interface StreamedEvent {
  readonly choices?: readonly { readonly index: number; readonly finish_reason: string | null }[]
  readonly error?: object
}
