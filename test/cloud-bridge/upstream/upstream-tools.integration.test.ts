import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startTestBridge } from '../../support/bridge.ts'
import { scriptedUpstream, sse, startStream } from '../../support/scripted-upstream.ts'
import { tempDir } from '../../support/temp-dir.ts'

const delta = (fields: object) => sse({ choices: [{ index: 0, delta: fields }] })
const call = (index: number, fields: object, more: object = {}) => delta({ tool_calls: [{ index, ...more, function: fields }] })

it('passes tools and schemas on to another server, and its calls back', async () => {
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
    const response = await fetch(`${bridge.httpUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Rome?' }], ...fields }),
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
})
