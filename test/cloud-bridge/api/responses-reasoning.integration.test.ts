import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI from 'openai'
import type { ResponseReasoningItem } from 'openai/resources/responses/responses'
import { expect, it } from 'vitest'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { tempDir } from '../../support/temp-dir.ts'

/** Answers begin in the middle of reasoning, which random weights do not end. */
const template = `{#- </think> -#}
{%- for m in messages %}{{ m.role }}: {% if m.reasoning_content %}({{ m.reasoning_content }}) {% endif %}{{ m.content }}
{% endfor %}assistant: <think>
`

it('reasoning is an item of its own, streamed as such, and comes back to the template with the next request', async () => {
  using dir = tempDir()
  const checkpoint = join(dir.path, 'checkpoint')
  await cp(fixtureDir('llama'), checkpoint, { recursive: true })
  const file = join(checkpoint, 'tokenizer_config.json')
  const config = JSON.parse(await readFile(file, 'utf8')) as object
  await writeFile(file, JSON.stringify({ ...config, chat_template: template }))
  const bundle = join(dir.path, 'bundle')
  await buildBundle({ checkpoint, split: 1, format: 'fp32', name: 'thinker', out: bundle })
  await using bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge') })
  const openai = new OpenAI({ baseURL: `${bridge.httpUrl}/v1`, apiKey: 'none', maxRetries: 0 })
  const asked = { model: 'brim', temperature: 0, max_output_tokens: 10 }
  const question = { role: 'user' as const, content: 'Hi' }
  const chatAnswer = async (messages: object[]) => {
    const { choices } = await openai.chat.completions.create({
      model: 'brim',
      temperature: 0,
      max_tokens: 10,
      messages: messages as never,
    })
    return choices[0]!.message as unknown as { reasoning_content: string }
  }
  const expected = (await chatAnswer([question])).reasoning_content
  expect(expected).not.toBe('')

  const first = await openai.responses.create({ ...asked, input: 'Hi' })
  const item = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: expected }], status: 'incomplete' }
  expect(first.output).toMatchObject([item])
  expect(first.usage!.output_tokens_details.reasoning_tokens).toBe(10)
  const types = new Set<string>()
  const stream = openai.responses.stream({ ...asked, input: 'Hi' })
  stream.on('event', ({ type }) => types.add(type))
  const streamed = await stream.finalResponse()
  expect(streamed.output).toMatchObject([item])
  expect(streamed.usage!.output_tokens_details.reasoning_tokens).toBe(10)
  expect([...types]).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.reasoning_text.delta',
    'response.reasoning_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.incomplete',
  ])

  const messages = [
    question,
    { role: 'assistant', content: 'Hello', reasoning_content: expected },
    { role: 'user', content: 'Go on' },
  ]
  const reasoning = first.output[0] as ResponseReasoningItem
  const next = await openai.responses.create({
    ...asked,
    input: [question, reasoning, { role: 'assistant', content: 'Hello' }, { role: 'user', content: 'Go on' }],
  })
  const { reasoning_content: second } = await chatAnswer(messages)
  expect((next.output[0] as ResponseReasoningItem).content![0]!.text).toBe(second)
  // The template reads it.
  expect((await chatAnswer(messages.map(({ role, content }) => ({ role, content })))).reasoning_content).not.toBe(second)
})
