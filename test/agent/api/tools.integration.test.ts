import { Ajv } from 'ajv'
import OpenAI from 'openai'
import { beforeAll, describe, expect, it } from 'vitest'
import { startAgentWorld } from '../../support/agent-world.ts'
import { shared } from '../../support/shared.ts'

/** Short: the tiny model reads few tokens. */
const parameters = { type: 'object', properties: { c: { enum: ['R', 'O'] } }, required: ['c'], additionalProperties: false }
const tools = [{ type: 'function' as const, function: { name: 'w', parameters, strict: true } }]
const messages = [{ role: 'user' as const, content: 'Rain?' }]
const base = { model: 'brim', messages, max_tokens: 110, temperature: 1 }

const world = shared(startAgentWorld)
let servers: readonly (readonly [string, OpenAI])[]
beforeAll(async () => {
  const at = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
  servers = [
    ['agent', at(world.agent.apiUrl)],
    ['bridge', at(world.bridge.httpUrl)],
  ]
})

/** The model has random weights: what it writes is kept to the tools alone. */
describe.each([
  ['agent', 0],
  ['bridge', 1],
])('tools: %s', (_, at) => {
  const isValid = new Ajv().compile(parameters)

  it.each(['required', { type: 'function', function: { name: 'w' } }] as const)('choice %j calls', async (choice) => {
    const [, openai] = servers[at]!
    for (let seed = 0; seed < 4; seed++) {
      const asked = { ...base, tools, tool_choice: choice, parallel_tool_calls: false, seed }
      const whole = await openai.chat.completions.create(asked)
      const [{ message, finish_reason }] = whole.choices as [(typeof whole.choices)[0]]
      expect(finish_reason).toBe('tool_calls')
      expect(message.content).toBeNull()
      const [call, ...others] = message.tool_calls as { id: string; function: { name: string; arguments: string } }[]
      expect(others).toEqual([])
      expect(call!.function.name).toBe('w')
      expect(isValid(JSON.parse(call!.function.arguments)), call!.function.arguments).toBe(true)

      const streamed = { name: '', arguments: '', ids: new Set<string>(), finish: '' }
      for await (const { choices } of await openai.chat.completions.create({ ...asked, stream: true })) {
        for (const piece of choices[0]?.delta.tool_calls ?? []) {
          if (piece.id) streamed.ids.add(piece.id)
          streamed.name += piece.function?.name ?? ''
          streamed.arguments += piece.function?.arguments ?? ''
        }
        streamed.finish = choices[0]?.finish_reason ?? streamed.finish
        expect(choices[0]?.delta.content ?? '').toBe('')
      }
      expect(streamed).toMatchObject({ ...call!.function, finish: 'tool_calls' })
      expect([...streamed.ids]).toEqual([expect.stringMatching(/^[0-9a-f]{9}$/)])
    }
  })

  it('answers of a schema match it, and a conversation with results of calls goes on', async () => {
    const [, openai] = servers[at]!
    const schema = { name: 'plan', schema: parameters, strict: true }
    const call = {
      id: '123456789',
      type: 'function' as const,
      function: { name: 'w', arguments: '{"c": "R"}' },
    }
    const conversation = [
      ...messages,
      { role: 'assistant' as const, content: null, tool_calls: [call] },
      { role: 'tool' as const, tool_call_id: call.id, content: 'sunny' },
    ]
    const { choices } = await openai.chat.completions.create({
      ...base,
      messages: conversation,
      response_format: { type: 'json_schema', json_schema: schema },
    })
    expect(isValid(JSON.parse(choices[0]!.message.content!))).toBe(true)
    expect(choices[0]!.finish_reason).toBe('stop')
  })

  it('an answer that may call or has a form is one or the other, and valid', async () => {
    const [, openai] = servers[at]!
    const schema = { name: 'plan', schema: parameters, strict: true }
    const format = { response_format: { type: 'json_schema' as const, json_schema: schema }, tools, parallel_tool_calls: false }
    const ended: string[] = []
    for (const tool_choice of ['required', 'none', 'auto', 'auto'] as const) {
      const asked = { ...base, ...format, tool_choice, temperature: 1, seed: ended.length }
      const [choice] = (await openai.chat.completions.create(asked)).choices
      ended.push(choice!.finish_reason)
      const { content, tool_calls: calls } = choice!.message
      const written = calls?.map((call) => (call.type === 'function' ? call.function.arguments : '')) ?? [content!]
      expect(written.map((json) => isValid(JSON.parse(json)))).toEqual([true])
    }
    expect(ended.slice(0, 2)).toEqual(['tool_calls', 'stop'])
  })

  it.each<[object, RegExp, number]>([
    [{ tools, tool_choice: { type: 'function', function: { name: 'nope' } } }, /no function "nope"/, 400],
    [{ tools: [tools[0], tools[0]] }, /two functions have the name "w"/, 400],
    [{ tool_choice: 'required' }, /needs "tools"/, 400],
    [{ tools: [{ type: 'function', function: { name: 'a b' } }] }, /letters, digits/, 400],
    [{ tools: [{ type: 'retrieval' }] }, /only functions/, 400],
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema: { not: {} } } } },
      /not is not supported/,
      400,
    ],
    [{ structured_outputs: { regex: 'a'.repeat(200_000) } }, /too complex/, 422],
  ])('a request that cannot be kept is refused by name: %#', async (fields, message, status) => {
    const [, openai] = servers[at]!
    const asked = { ...base, ...fields } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming
    await expect(openai.chat.completions.create(asked)).rejects.toMatchObject({ status, message: expect.stringMatching(message) })
  })
})
