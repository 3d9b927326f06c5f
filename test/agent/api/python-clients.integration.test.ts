import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AgentWorld, startAgentWorld } from '../../support/agent-world.ts'
import { pythonWith } from '../../support/python-packages.ts'

const pathOf = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))
const python = pythonWith('python-clients')

describe.skipIf(python === undefined)('from Python', () => {
  const prompt = 'Where does the river rise?'
  const options = { model: 'brim', max_tokens: 8, temperature: 0 }
  let world: AgentWorld
  let baseURL: string
  let openai: OpenAI
  let expected: { chat: string; texts: string[] }
  beforeAll(async () => {
    world = await startAgentWorld()
    baseURL = `${world.agent.apiUrl}/v1`
    openai = new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0 })
    const chat = await openai.chat.completions.create({ ...options, messages: [{ role: 'user', content: prompt }] })
    const texts = await openai.completions.create({ ...options, prompt: [prompt, 'The old mill'] })
    expected = { chat: chat.choices[0]!.message.content!, texts: texts.choices.map(({ text }) => text) }
  })
  afterAll(() => world[Symbol.asyncDispose]())

  const run = async (script: string): Promise<unknown> => {
    const argv = [pathOf(`test/python-clients/${script}.py`), baseURL, prompt]
    const env = { ...process.env, NO_PROXY: '127.0.0.1', PYTHONDONTWRITEBYTECODE: '1', LANGSMITH_TRACING: 'false' }
    const { stdout } = await promisify(execFile)(python!, argv, { env, timeout: 50_000 })
    return JSON.parse(stdout)
  }

  it('the openai package works', async () => {
    expect(await run('openai_client')).toEqual({
      models: ['tiny-llama', 'brim'],
      chat: expected.chat,
      asynchronous: expected.chat,
      streamed: expected.chat,
      usage: [8, 8],
      requestId: expect.stringMatching(/^req_/),
      completions: expected.texts,
      answers: 2,
      ignored: 'store, typical_p',
      tokenIds: 8,
      unknownModel: { status: 404, code: 'MODEL_UNKNOWN', param: 'model' },
      tools: { status: 400, code: 'REQUEST_INVALID', param: 'tools' },
    })
  }, 60_000)

  it("LangChain's ChatOpenAI and OpenAI work", async () => {
    const call = { id: 'call_1', type: 'function' as const, function: { name: 'level', arguments: '{"river": "Aare"}' } }
    const messages = [
      { role: 'user' as const, content: prompt },
      { role: 'assistant' as const, content: null, tool_calls: [call] },
      { role: 'tool' as const, tool_call_id: 'call_1', content: '503 m' },
    ]
    const afterTool = await openai.chat.completions.create({ ...options, messages })
    expect(await run('langchain_client')).toEqual({
      chat: expected.chat,
      chatStreamed: expected.chat,
      chatBatch: [expected.chat, expected.chat],
      afterTool: afterTool.choices[0]!.message.content,
      text: expected.texts[0],
      textStreamed: expected.texts[0],
      textBatch: expected.texts,
    })
  }, 60_000)
})
