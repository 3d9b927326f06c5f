import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { fixtureDir } from '../oracle/fixtures.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { brim } from '../support/brim.ts'
import { captureIo } from '../support/captured-io.ts'
import { pythonWith } from '../support/python-packages.ts'
import { shared } from '../support/shared.ts'

const pathOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const python = pythonWith('python-clients')

/** At the API of an agent, which requires no key, and of a bridge, which answers alone and requires one. */
describe.skipIf(python === undefined)('the unmodified clients for Python', () => {
  const prompt = 'Where does the river rise?'
  const options = { model: 'brim', max_tokens: 8, temperature: 0 }
  const world = shared(() => startAgentWorld({ context: 2_048 }))
  let bridge: TestBridge
  /** Base URLs and keys. */
  let apis: (readonly [string, string])[]
  /** Of the client for Node, at the agent: with the same bundle, both give the same answers. */
  let openai: OpenAI
  let expected: { chat: string; texts: string[] }
  beforeAll(async () => {
    const embedding = join(world.dir, 'embed')
    await buildBundle({ checkpoint: fixtureDir('llama'), out: embedding, embedding: 'mean', format: 'fp32' })
    const agent = await world.startAgent({ id: 'embedding', embedding })
    const stateDir = join(world.dir, 'alone')
    bridge = await startTestBridge({ bundle: world.bundle, stateDir, auth: true, embedding })
    const { io, out } = captureIo()
    await brim(['bridge', 'key', 'create', '--name', 'app', '--role', 'client', '--state-dir', stateDir], io)
    apis = [
      [`${agent.apiUrl}/v1`, 'any'],
      [`${bridge.httpUrl}/v1`, out().trim()],
    ]
    openai = new OpenAI({ baseURL: apis[0]![0], apiKey: 'any', maxRetries: 0 })
    const chat = await openai.chat.completions.create({ ...options, messages: [{ role: 'user', content: prompt }] })
    const texts = await openai.completions.create({ ...options, prompt: [prompt, 'The old mill'] })
    expected = { chat: chat.choices[0]!.message.content!, texts: texts.choices.map(({ text }) => text) }
  })
  afterAll(() => bridge.close())

  /** What the script got from each API. */
  const run = async (script: string): Promise<unknown> => {
    const argv = [pathOf(`test/python-clients/${script}.py`), prompt, ...apis.flat()]
    const env = { ...process.env, NO_PROXY: '127.0.0.1', PYTHONDONTWRITEBYTECODE: '1', LANGSMITH_TRACING: 'false' }
    return JSON.parse((await promisify(execFile)(python!, argv, { env, timeout: 50_000 })).stdout)
  }

  it('openai works', async () => {
    const [atAgent, atBridge] = (await run('openai_client')) as { sampled: string[] }[]
    const refused = { class: 'BadRequestError', status: 400, code: 'REQUEST_INVALID' }
    const answers = {
      models: ['tiny-llama', 'brim', 'llama'],
      model: 'brim',
      chat: expected.chat,
      asynchronous: [expected.chat, expected.chat],
      streamed: expected.chat,
      usage: [8, 8],
      requestId: expect.stringMatching(/^req_/),
      scored: expected.chat,
      likeliest: [2, 2, 2, 2, 2, 2, 2, 2],
      completions: expected.texts,
      sampled: [expect.any(String), expect.any(String)],
      sampledStreamed: atAgent!.sampled,
      ignored: 'store, typical_p',
      tokenIds: 8,
      unknownModel: { class: 'NotFoundError', status: 404, code: 'model_not_found', param: 'model' },
      call: { finish: 'tool_calls', name: 'level', river: true, streamed: true, ids: 1, parsed: 'Level' },
      responses: {
        text: expected.chat,
        status: 'incomplete',
        streamed: expected.chat,
        inOrder: true,
        usage: [8, 8],
        streamedCall: true,
        following: true,
        retrieved: expected.chat,
        call: ['level', true],
        afterTool: expect.any(String),
        parsed: 'Level',
        unknown: { status: 400, param: 'previous_response_id' },
      },
      unknownTool: { ...refused, param: 'tool_choice' },
      rate: { ...refused, param: 'x-brim-tokens-per-s' },
    }
    expect(atAgent).toEqual({ ...answers, wrongKey: null })
    const wrongKey = { class: 'AuthenticationError', status: 401, code: 'NOT_AUTHORIZED', param: null }
    expect(atBridge).toEqual({ ...answers, sampled: atAgent!.sampled, wrongKey })
    expect(new Set(atAgent!.sampled).size).toBe(2)
  }, 60_000)

  it("LangChain's ChatOpenAI and OpenAI work", async () => {
    const call = { id: 'call_1', type: 'function' as const, function: { name: 'level', arguments: '{"river": "Aare"}' } }
    const messages = [
      { role: 'user' as const, content: prompt },
      { role: 'assistant' as const, content: null, tool_calls: [call] },
      { role: 'tool' as const, tool_call_id: 'call_1', content: '503 m' },
    ]
    const afterTool = await openai.chat.completions.create({ ...options, messages })
    const answers = {
      chat: expected.chat,
      chatStreamed: expected.chat,
      chatBatch: [expected.chat, expected.chat],
      afterTool: afterTool.choices[0]!.message.content,
      tools: { results: [true], streamed: true, forms: ['Level', 'Level'] },
      text: expected.texts[0],
      textStreamed: expected.texts[0],
      textBatch: expected.texts,
    }
    expect(await run('langchain_client')).toEqual([answers, answers])
  }, 60_000)

  it("openai and LangChain's OpenAIEmbeddings embed texts", async () => {
    const vectors = { lengths: [1, 1], short: 8, tokens: true, documents: [1, 1], query: 1 }
    expect(await run('embeddings_client')).toEqual([vectors, vectors])
  }, 60_000)

  it("agents of OpenAI's Agents SDK call tools, by chat completions and by responses", async () => {
    const ran = { ran: true, called: true, form: 'Level' }
    expect(await run('agents_client')).toEqual([
      [ran, ran],
      [ran, ran],
    ])
  }, 60_000)
})
