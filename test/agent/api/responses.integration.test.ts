import { Ajv } from 'ajv'
import OpenAI from 'openai'
import type { ResponseInput, ResponseStreamEvent } from 'openai/resources/responses/responses'
import { beforeAll, describe, expect, it } from 'vitest'
import type { TokenEndpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { startTestApi } from '../../support/api.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'

/** Short, and without texts: the tiny model reads few tokens, and ends no text. */
const parameters = { type: 'object', properties: { c: { enum: ['R', 'O'] } }, required: ['c'], additionalProperties: false }
const tool = { type: 'function' as const, name: 'w', parameters, strict: true }
const input = 'Where does the river rise?'
const messages = [{ role: 'user' as const, content: input }]
const greedy = { model: 'brim', temperature: 0 }

const world = shared(startAgentWorld)
let urls: readonly string[]
let servers: readonly OpenAI[]
beforeAll(async () => {
  urls = [world.agent.apiUrl, world.bridge.httpUrl]
  servers = urls.map((url) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }))
})

type Create = OpenAI.Responses.ResponseCreateParamsNonStreaming

describe.each([
  ['agent', 0],
  ['bridge', 1],
])('the Responses API: %s', (_, at) => {
  const isValid = new Ajv().compile(parameters)
  const openai = () => servers[at]!
  const eventsOf = async (fields: Create): Promise<ResponseStreamEvent[]> => {
    const events: ResponseStreamEvent[] = []
    for await (const event of await openai().responses.create({ ...fields, stream: true })) events.push(event)
    return events
  }

  it('has the text, the usage and the report of the chat answer', async () => {
    const chat = await openai().chat.completions.create({ ...greedy, messages, max_tokens: 12 })
    const response = await openai().responses.create({
      ...greedy,
      input,
      max_output_tokens: 12,
      metadata: { topic: 'rivers' },
      ...{ brim: { token_ids: true } },
    })
    expect(response.output_text).toBe(chat.choices[0]!.message.content)
    expect(response).toMatchObject({
      id: expect.stringMatching(/^resp_/),
      object: 'response',
      model: 'tiny-llama',
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      error: null,
      output: [{ type: 'message', id: expect.stringMatching(/^msg_/), role: 'assistant', status: 'incomplete' }],
      usage: {
        input_tokens: chat.usage!.prompt_tokens,
        input_tokens_details: { cached_tokens: expect.any(Number) },
        output_tokens: 12,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: chat.usage!.total_tokens,
      },
      metadata: { topic: 'rivers' },
      temperature: 0,
      max_output_tokens: 12,
      tool_choice: 'auto',
      brim: { ttftMs: expect.any(Number) },
    })
    expect((response as unknown as { brim: { tokenIds: number[] } }).brim.tokenIds).toHaveLength(12)
  })

  it('streams the same response as events in their order, without gaps', async () => {
    const asked = { ...greedy, input, max_output_tokens: 12 }
    const whole = await openai().responses.create(asked)
    const events = await eventsOf(asked)
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index))
    const types = events.map(({ type }) => type)
    expect(types.filter((type, index) => type !== types[index - 1])).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.incomplete',
    ])
    const deltas = events.flatMap((event) => (event.type === 'response.output_text.delta' ? [event.delta] : []))
    expect(deltas.length).toBeGreaterThan(3)
    expect(deltas.join('')).toBe(whole.output_text)
    const last = events.at(-1) as OpenAI.Responses.ResponseIncompleteEvent
    expect(last.response.output.map((item) => ({ ...item, id: '' }))).toEqual(whole.output.map((item) => ({ ...item, id: '' })))
    const { input_tokens_details: __, ...usage } = whole.usage!
    expect(last.response.usage).toMatchObject(usage)
  })

  it("is read by the client's accumulator, with names of events and no mark of another API", async () => {
    const final = await openai()
      .responses.stream({ ...greedy, input, max_output_tokens: 8 })
      .finalResponse()
    expect(final).toMatchObject({ status: 'incomplete', output_text: expect.any(String) })
    expect(final.output_text).not.toBe('')
    const raw = await postJson(`${urls[at]}/v1/responses`, { ...greedy, input, max_output_tokens: 4, stream: true })
    const blocks = (await raw.text()).trim().split('\n\n')
    for (const block of blocks) {
      const [, name, data] = /^event: (.+)\ndata: (.+)$/.exec(block) ?? []
      expect(JSON.parse(data!)).toMatchObject({ type: name })
    }
  })

  it('keeps answers to a schema, which the client parses', async () => {
    const format = { type: 'json_schema' as const, name: 'plan', schema: parameters, strict: true }
    for (let seed = 0; seed < 3; seed++) {
      const asked = { model: 'brim', input: 'Rain?', max_output_tokens: 100, text: { format }, ...{ seed } }
      const response = await openai().responses.parse(asked)
      expect(response.status).toBe('completed')
      expect(isValid(response.output_parsed), response.output_text).toBe(true)
      expect(response.text).toMatchObject({ format })
      const chat = await openai().chat.completions.create({
        model: 'brim',
        messages: [{ role: 'user', content: 'Rain?' }],
        max_tokens: 100,
        seed,
        response_format: { type: 'json_schema', json_schema: { name: 'plan', schema: parameters, strict: true } },
      })
      expect(response.output_text).toBe(chat.choices[0]!.message.content)
    }
    const free = await openai().responses.create({
      model: 'brim',
      input: 'Rain?',
      max_output_tokens: 60,
      ...{ structured_outputs: { choice: ['yes', 'no'] } },
    })
    expect(['yes', 'no']).toContain(free.output_text)
  })

  it('calls functions as chat does, and goes on with their results', async () => {
    const called = { tools: [tool], tool_choice: 'required' as const, parallel_tool_calls: false }
    const asked = { ...greedy, input: 'Rain?', max_output_tokens: 110, ...called }
    const response = await openai().responses.create(asked)
    const [call, ...others] = response.output as OpenAI.Responses.ResponseFunctionToolCall[]
    expect(others).toEqual([])
    expect(call).toMatchObject({
      type: 'function_call',
      name: 'w',
      status: 'completed',
      call_id: expect.stringMatching(/^\w{9}$/),
    })
    expect(isValid(JSON.parse(call!.arguments)), call!.arguments).toBe(true)
    expect(response).toMatchObject({ status: 'completed', tools: [tool], tool_choice: 'required', parallel_tool_calls: false })
    const { choices } = await openai().chat.completions.create({
      ...greedy,
      messages: [{ role: 'user', content: 'Rain?' }],
      max_tokens: 110,
      tools: [{ type: 'function', function: { name: 'w', parameters, strict: true } }],
      tool_choice: 'required',
      parallel_tool_calls: false,
    })
    const [chatCall] = choices[0]!.message.tool_calls as { id: string; function: { arguments: string } }[]
    expect(call!.arguments).toBe(chatCall!.function.arguments)

    const types: string[] = []
    const stream = openai().responses.stream(asked)
    stream.on('event', ({ type }) => types.push(type))
    const streamed = await stream.finalResponse()
    expect(streamed.output).toMatchObject([
      { type: 'function_call', arguments: call!.arguments, parsed_arguments: JSON.parse(call!.arguments) },
    ])
    expect(types.filter((type, index) => type !== types[index - 1])).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ])

    const result = { type: 'function_call_output' as const, call_id: call!.call_id, output: 'sunny' }
    const answer = { ...greedy, max_output_tokens: 10 }
    const chatAnswer = await openai().chat.completions.create({
      ...greedy,
      max_tokens: 10,
      messages: [
        { role: 'user', content: 'Rain?' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: call!.call_id, type: 'function', function: { name: 'w', arguments: call!.arguments } }],
        },
        { role: 'tool', tool_call_id: call!.call_id, content: 'sunny' },
      ],
    })
    const expected = chatAnswer.choices[0]!.message.content
    const ways: Partial<Create>[] = [
      { input: [{ role: 'user', content: 'Rain?' }, call!, result] },
      {
        input: [
          { role: 'user', content: [{ type: 'input_text', text: 'Rain?' }] },
          { type: 'item_reference', id: call!.id! },
          result,
        ],
      },
      { input: [result], previous_response_id: response.id },
    ]
    for (const way of ways) expect((await openai().responses.create({ ...answer, ...way } as Create)).output_text).toBe(expected)
  })

  it('continues a conversation by the id of its last response, without the instructions of that one', async () => {
    const first = await openai().responses.create({ ...greedy, input: 'Hi', instructions: 'Be brief.', max_output_tokens: 6 })
    const second = await openai().responses.create({
      ...greedy,
      input: 'Go on',
      instructions: 'Be kind.',
      previous_response_id: first.id,
      max_output_tokens: 6,
    })
    const chat = await openai().chat.completions.create({
      ...greedy,
      max_tokens: 6,
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: first.output_text },
        { role: 'user', content: 'Go on' },
      ],
    })
    expect(second.output_text).toBe(chat.choices[0]!.message.content)
    expect(second).toMatchObject({ previous_response_id: first.id, instructions: 'Be kind.' })
    const { _request_id: __, ...sent } = second
    expect(await openai().responses.retrieve(second.id)).toMatchObject({ ...sent })
    await expect(openai().responses.retrieve(second.id, { stream: true })).rejects.toMatchObject({ status: 400, param: 'stream' })
    expect(await openai().responses.delete(second.id)).toBeOneOf([
      undefined,
      { id: second.id, object: 'response', deleted: true },
    ])
    await expect(openai().responses.retrieve(second.id)).rejects.toMatchObject({ status: 404, code: 'ANSWER_UNKNOWN' })
    await expect(openai().responses.delete(second.id)).rejects.toMatchObject({ status: 404 })
    const unkept = await openai().responses.create({ ...greedy, input: 'Hi', max_output_tokens: 2, store: false })
    expect(unkept).toMatchObject({ store: false })
    await expect(openai().responses.retrieve(unkept.id)).rejects.toMatchObject({ status: 404 })
  })

  it('reads every kind of item as the message that chat has for it', async () => {
    const items: ResponseInput = [
      { role: 'developer', content: 'Be brief.' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'A greeting.' }] },
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hello', annotations: [] }],
      },
      { role: 'user', content: 'Go on' },
    ]
    const response = await openai().responses.create({ ...greedy, input: items, max_output_tokens: 8 })
    const chat = await openai().chat.completions.create({
      ...greedy,
      max_tokens: 8,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'Hello' },
        { role: 'user', content: 'Go on' },
      ],
    })
    expect(response.output_text).toBe(chat.choices[0]!.message.content)
  })

  it('gives log probabilities, and names what has no effect', async () => {
    const { data, response } = await openai()
      .responses.create({
        ...greedy,
        input,
        max_output_tokens: 6,
        include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
        top_logprobs: 2,
        reasoning: { effort: 'low' },
        text: { verbosity: 'low' },
        service_tier: 'auto',
      })
      .withResponse()
    const [message] = data.output as OpenAI.Responses.ResponseOutputMessage[]
    const { text, logprobs } = message!.content[0] as OpenAI.Responses.ResponseOutputText
    expect(logprobs!.map(({ token }) => token).join('')).toBe(text)
    expect(logprobs!.map(({ top_logprobs: top }) => top.length)).toEqual([2, 2, 2, 2, 2, 2])
    expect(response.headers.get('x-brim-ignored')).toBe(
      'reasoning, text.verbosity, service_tier, include.reasoning.encrypted_content',
    )
  })

  const image = { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA==', detail: 'auto' }] }
  it.each<[string, object, string, number?]>([
    ['no input', { input: undefined }, 'input'],
    ['empty input', { input: [] }, 'input'],
    ['input of a wrong type', { input: 7 }, 'input'],
    ['an item of an unknown type', { input: [{ type: 'web_search_call', id: 'x' }] }, 'input.0.type'],
    ['an item without a type', { input: [{}] }, 'input.0.type'],
    ['an item that is no object', { input: [null] }, 'input.0'],
    ['an unknown role', { input: [{ role: 'tool', content: 'x' }] }, 'input.0.role'],
    ['an image', { input: [image] }, 'input.0.content.0.type'],
    ['a file', { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] }, 'input.0.content.0.type'],
    ['a result without its call', { input: [{ type: 'function_call_output', call_id: 'c', output: 'x' }] }, 'input.0.call_id'],
    ['a call without a name', { input: [{ type: 'function_call', call_id: 'c', arguments: '{}' }] }, 'input.0.name'],
    ['an unknown reference', { input: [{ type: 'item_reference', id: 'msg_0' }] }, 'input.0.id'],
    ['an unknown previous response', { previous_response_id: 'resp_0' }, 'previous_response_id'],
    ['a built-in tool', { tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    ['an unknown tool', { tools: [tool], tool_choice: { type: 'function', name: 'v' } }, 'tool_choice'],
    ['a tool of chat', { tools: [{ type: 'function', function: { name: 'w' } }] }, 'tools.0.name'],
    ['a background', { background: true }, 'background'],
    ['a conversation', { conversation: 'conv_1' }, 'conversation'],
    ['a prompt template', { prompt: { id: 'p' } }, 'prompt'],
    ['truncation', { truncation: 'auto' }, 'truncation'],
    ['several answers', { n: 2 }, 'n'],
    ['max_tokens', { max_tokens: 5 }, 'max_tokens'],
    ['response_format', { response_format: { type: 'json_object' } }, 'response_format'],
    ['no output', { max_output_tokens: 0 }, 'max_output_tokens'],
    ['metadata that is no text', { metadata: { a: 1 } }, 'metadata.a'],
    ['too much metadata', { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v'])) }, 'metadata'],
    ['likeliest tokens alone', { top_logprobs: 2 }, 'top_logprobs'],
    ['a format without a schema', { text: { format: { type: 'json_schema', name: 'x' } } }, 'text.format.schema'],
    ['two forms', { text: { format: { type: 'json_object' } }, guided_regex: 'a' }, 'guided_regex'],
    ['an unknown model', { model: 'gpt-none' }, 'model', 404],
    ['too many items', { input: Array.from({ length: 4_097 }, () => ({ role: 'user', content: 'x' })) }, 'input'],
    ['too much text', { input: 'x'.repeat(2 ** 20 + 1) }, 'input'],
    ['a long id', { previous_response_id: 'x'.repeat(300) }, 'previous_response_id'],
  ])('%s is refused by name', async (_, fields, param, status = 400) => {
    const asked = { ...greedy, input, max_output_tokens: 4, ...fields } as unknown as Create
    await expect(openai().responses.create(asked)).rejects.toMatchObject({
      status,
      param,
      type: 'invalid_request_error',
      message: expect.stringContaining(param.split('.').at(-1)!.replace(/^\d+$/, 'input')),
    })
  })
})

it('a stream that fails ends with the error, and is not kept; one whose client leaves stops its work', async () => {
  const model = await loadTextModel(world.bundle, await readManifest(world.bundle))
  const source = { kind: 'slm' as const, model }
  let fails = true
  let stopped = false
  const endpoint: TokenEndpoint = {
    model,
    async *answer(_, signal) {
      try {
        yield { source, tokens: [11, 42], end: undefined }
        if (fails) throw new BrimError('LINK_LOST', 'the cable was cut', { hint: 'mend it' })
        for (;;) {
          await new Promise((next) => setTimeout(next, 5))
          signal.throwIfAborted()
          yield { source, tokens: [23], end: undefined }
        }
      } finally {
        stopped = true
      }
    },
  }
  const api = await startTestApi({ card: (await readManifest(world.bundle)).card }, endpoint)
  const openai = new OpenAI({ baseURL: `${api.url}/v1`, apiKey: 'none', maxRetries: 0 })
  const events: ResponseStreamEvent[] = []
  for await (const event of await openai.responses.create({ ...greedy, input, stream: true })) events.push(event)
  const last = events.at(-1) as OpenAI.Responses.ResponseFailedEvent
  expect(last).toMatchObject({
    type: 'response.failed',
    sequence_number: events.length - 1,
    response: { status: 'failed', error: { code: 'LINK_LOST', message: 'the cable was cut', hint: 'mend it' }, usage: null },
  })
  await expect(openai.responses.retrieve(last.response.id)).rejects.toMatchObject({ status: 404 })
  await expect(openai.responses.create({ ...greedy, input })).rejects.toMatchObject({ status: 503, code: 'LINK_LOST' })

  fails = false
  stopped = false
  const stream = await openai.responses.create({ ...greedy, input, stream: true })
  for await (const { type } of stream) if (type === 'response.output_text.delta') break
  await expect.poll(() => stopped).toBe(true)
  await api.close()
})

it('a response of an agent is only its own key’s', async () => {
  const { baseURL } = servers[0]!
  const other = new OpenAI({ baseURL, apiKey: 'another', maxRetries: 0 })
  const { id, output } = await servers[0]!.responses.create({ ...greedy, input, max_output_tokens: 2 })
  await expect(other.responses.retrieve(id)).rejects.toMatchObject({ status: 404 })
  await expect(other.responses.delete(id)).rejects.toMatchObject({ status: 404 })
  const asked = { ...greedy, input, max_output_tokens: 2 }
  await expect(other.responses.create({ ...asked, previous_response_id: id })).rejects.toMatchObject({ status: 400 })
  const reference = [{ type: 'item_reference' as const, id: output[0]!.id! }]
  await expect(other.responses.create({ ...asked, input: reference })).rejects.toMatchObject({ status: 400, param: 'input.0.id' })
  expect((await servers[0]!.responses.retrieve(id)).id).toBe(id)
})
