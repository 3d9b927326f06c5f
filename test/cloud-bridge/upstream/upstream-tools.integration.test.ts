import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startTestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { scriptedUpstream, sse, startStream } from '../../support/scripted-upstream.ts'
import { tempDir } from '../../support/temp-dir.ts'

const delta = (fields: object) => sse({ choices: [{ index: 0, delta: fields }] })
const call = (index: number, fields: object, more: object = {}) => delta({ tool_calls: [{ index, ...more, function: fields }] })

it('passes tools and schemas of chat and of responses on to another server, and its calls back', async () => {
  await using upstream = await scriptedUpstream((response) => {
    startStream(
      response,
      delta({ content: 'Let me see. ' }),
      call(0, { name: 'weather', arguments: '' }, { id: 'a', type: 'function' }),
      call(0, { arguments: '{"city": "R' }),
      call(0, { arguments: 'ome", "note": "}\\n</tool_call>"}' }),
      call(1, { name: 'time' }, { id: 'b', type: 'function' }),
      sse({ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }),
      sse('[DONE]'),
    )
    response.end()
  })
  using dir = tempDir()
  await using bridge = await startTestBridge({
    upstream: { url: upstream.url, model: 'large' },
    stateDir: join(dir.path, 'bridge'),
  })
  const tools = ['weather', 'time'].map((name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } }))
  const ask = async (fields: object) => {
    const response = await postJson(`${bridge.httpUrl}/v1/chat/completions`, {
      messages: [{ role: 'user', content: 'Rome?' }],
      ...fields,
    })
    return (await response.json()) as { choices: unknown[] }
  }
  const { choices } = await ask({ tools, tool_choice: 'auto', parallel_tool_calls: true })
  expect(upstream.requests[0]!.body).toMatchObject({ tools, tool_choice: 'auto', parallel_tool_calls: true })
  expect(choices).toMatchObject([
    {
      finish_reason: 'tool_calls',
      message: {
        content: 'Let me see. ',
        tool_calls: [
          { type: 'function', function: { name: 'weather', arguments: '{"city": "Rome", "note": "}\\n</tool_call>"}' } },
          { type: 'function', function: { name: 'time', arguments: '{}' } },
        ],
      },
    },
  ])
  const json_schema = { name: 'answer', schema: { type: 'object' }, strict: false }
  await ask({ response_format: { type: 'json_schema', json_schema } })
  expect(upstream.requests[1]!.body).toMatchObject({ response_format: { type: 'json_schema', json_schema } })

  const flat = tools.map(({ type, function: named }) => ({ type, ...named }))
  const post = (fields: object) =>
    postJson(`${bridge.httpUrl}/v1/responses`, { input: 'Rome?', instructions: 'Be brief.', tools: flat, ...fields })
  const { status, output } = (await (await post({})).json()) as { status: string; output: object[] }
  expect(upstream.requests[2]!.body).toMatchObject({
    tools,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Rome?' },
    ],
  })
  expect(status).toBe('completed')
  expect(output).toMatchObject([
    { type: 'message', content: [{ type: 'output_text', text: 'Let me see. ' }] },
    { type: 'function_call', name: 'weather', arguments: '{"city": "Rome", "note": "}\\n</tool_call>"}' },
    { type: 'function_call', name: 'time', arguments: '{}' },
  ])
  const events = (await (await post({ stream: true })).text()).trim().split('\n\n')
  const last = JSON.parse(/^data: (.*)$/m.exec(events.at(-1)!)![1]!) as { type: string; response: { output: object[] } }
  expect(last.type).toBe('response.completed')
  const withoutIds = (items: object[]) => items.map((item) => ({ ...item, id: '', call_id: '' }))
  expect(withoutIds(last.response.output)).toEqual(withoutIds(output))
})
