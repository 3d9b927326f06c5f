import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { packIds } from '../../../core/wire/protocol/token-ids.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { openReference } from '../../support/reference-model.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const messages = [{ role: 'user' as const, content: 'Where does the river rise?' }]

const dir = shared(tempDir)
const reference = shared(async () => openReference(await buildTextBundle(dir.path, { adapter: false })))
const bridge = shared(() => startTestBridge({ bundle: reference.bundle, stateDir: join(dir.path, 'bridge') }))
let chatIds: number[]
let vocab: number
beforeAll(async () => {
  chatIds = reference.chatIds(messages)
  vocab = reference.manifest.dims.vocab
})

interface Body {
  id: string
  choices: { text?: string; message?: { content: string }; delta?: { content?: string }; token_ids?: number[] }[]
  usage: { prompt_tokens: number; completion_tokens: number }
  error: { param: string; code: string; message: string }
}

const post = (operation: 'completions' | 'chat/completions', body: object) => postJson(`${bridge.httpUrl}/v1/${operation}`, body)
const ask = async (...question: Parameters<typeof post>) => (await (await post(...question)).json()) as Body

async function eventsOf(response: Response) {
  const events: { id: string; data: Body }[] = []
  let id = ''
  const onId = (own: string) => {
    id = own
  }
  for await (const data of readSse(response.body!, { onId })) if (data !== '[DONE]') events.push({ id, data: JSON.parse(data) })
  return events
}
const idsOf = (events: Awaited<ReturnType<typeof eventsOf>>) => events.flatMap(({ data }) => data.choices[0]?.token_ids ?? [])
const textOf = (events: Awaited<ReturnType<typeof eventsOf>>) => events.map(({ data }) => data.choices[0]?.text ?? '').join('')
const textFrom = (ids: readonly number[], from: number) => {
  const detokenizer = reference.tokenizer.detokenizer()
  return ids.map((id, at) => (at < from ? detokenizer.push(id) && '' : detokenizer.push(id))).join('')
}

describe('an answer that has begun elsewhere', () => {
  const sampling = { temperature: 0.9, topK: 0, topP: 1, presencePenalty: 1.5, frequencyPenalty: 0.5, seed: 7 }
  const sampled = { temperature: 0.9, presence_penalty: 1.5, frequency_penalty: 0.5, seed: 7 }

  it('goes on with the tokens of the reference from packed ids, penalties and noise at their positions', async () => {
    const expected = await reference.answer(chatIds, sampling, 20)
    for (const answered of [1, 9]) {
      const ids = [...chatIds, ...expected.slice(0, answered)]
      const body = {
        ...sampled,
        model: bridge.modelId,
        max_tokens: 20 - answered,
        return_token_ids: true,
        brim: { prompt_ids: packIds(ids, vocab), answered },
      }
      const events = await eventsOf(await post('completions', { ...body, stream: true }))
      expect(idsOf(events)).toEqual(expected.slice(answered))
      expect(textOf(events)).toBe(textFrom(expected, answered))
      // Ids of events count the tokens.
      const counts = events.flatMap(({ id, data }) => (data.choices[0]?.token_ids ? [Number(id.split('/')[1])] : []))
      expect(counts.at(-1)).toBe(20 - answered)
      const whole = await ask('completions', body)
      expect(whole.choices[0]!.token_ids).toEqual(expected.slice(answered))
      expect(whole.usage).toMatchObject({ prompt_tokens: ids.length, completion_tokens: 20 - answered })
    }
  })

  it('is resumed where its connection ended', async () => {
    const expected = await reference.answer(chatIds, sampling, 12)
    const brim = { prompt_ids: packIds([...chatIds, ...expected.slice(0, 4)], vocab), answered: 4 }
    const streamed = await eventsOf(
      await post('completions', { ...sampled, max_tokens: 8, stream: true, return_token_ids: true, brim }),
    )
    const rest = await fetch(`${bridge.httpUrl}/v1/answers/${streamed[0]!.data.id}/events`, {
      headers: { 'last-event-id': `${streamed[0]!.data.id}/3` },
    })
    expect(idsOf(await eventsOf(rest))).toEqual(expected.slice(7))
  })

  it('is continued after a last message of the assistant, as text', async () => {
    const expected = await reference.answer(chatIds, greedy, 16)
    const begun = textFrom(expected.slice(0, 6), 0)
    const own = reference.tokenizer.encode(begun, { addSpecialTokens: false })
    const continued = await reference.answer([...chatIds, ...own], greedy, 6)
    const answer = await ask('chat/completions', {
      messages: [...messages, { role: 'assistant', content: begun }],
      continue_final_message: true,
      add_generation_prompt: false,
      temperature: 0,
      max_tokens: 6,
    })
    expect(begun + answer.choices[0]!.message!.content).toBe(begun + textFrom([...own, ...continued], own.length))
    expect(answer.usage.prompt_tokens).toBe(chatIds.length + own.length)
  })
})

it('token ids come with the events that have their text, or a part of a character', async () => {
  const expected = await reference.answer(chatIds, { ...greedy, temperature: 1.5, seed: 3 }, 40)
  const body = { messages, temperature: 1.5, seed: 3, max_tokens: 40, return_token_ids: true }
  const events = await eventsOf(await post('chat/completions', { ...body, stream: true }))
  expect(idsOf(events)).toEqual(expected)
  expect((await ask('chat/completions', { ...body, n: 2 })).choices.map((each) => each.token_ids?.length)).toEqual([40, 40])
  expect((await ask('chat/completions', { ...body, return_token_ids: false })).choices[0]).not.toHaveProperty('token_ids')
})

describe('a prompt that cannot be read', () => {
  const packed = () => packIds([1, 2, 3], vocab)
  it.each<[string, () => object, string]>([
    ['without any prompt', () => ({}), 'prompt'],
    ['given twice', () => ({ prompt: 'a', brim: { prompt_ids: packed() } }), 'brim.prompt_ids'],
    ['no base64', () => ({ brim: { prompt_ids: '!!!' } }), 'brim.prompt_ids'],
    ['bits that are no id', () => ({ brim: { prompt_ids: Buffer.from([0, 0, 1]).toString('base64') } }), 'brim.prompt_ids'],
    ['more than a prompt may have', () => ({ brim: { prompt_ids: 'A'.repeat(2 ** 20 + 4) } }), 'brim.prompt_ids'],
    ['an answer as long as the prompt', () => ({ brim: { prompt_ids: packed(), answered: 3 } }), 'brim.answered'],
    ['an answer in a text', () => ({ prompt: 'abc', brim: { answered: 1 } }), 'brim.answered'],
    ['an answer in several prompts', () => ({ prompt: [[1, 2], [3]], brim: { answered: 1 } }), 'brim.answered'],
  ])('is refused by name: %s', async (_, body, param) => {
    expect(await ask('completions', body())).toMatchObject({ error: { param, code: 'REQUEST_INVALID' } })
  })

  it.each<[object, string]>([
    [{ messages, continue_final_message: true }, 'continue_final_message'],
    [{ messages: [{ role: 'assistant', content: 'I' }], continue_final_message: true }, 'continue_final_message'],
    [{ messages, add_generation_prompt: false }, 'add_generation_prompt'],
    [
      {
        messages: [...messages, { role: 'assistant', content: 'I' }],
        continue_final_message: true,
        add_generation_prompt: true,
      },
      'add_generation_prompt',
    ],
  ])('a conversation that ends otherwise is refused: %j', async (body, param) => {
    expect(await ask('chat/completions', body)).toMatchObject({ error: { param, code: 'REQUEST_INVALID' } })
  })

  it('another model than the one that the id names is refused', async () => {
    const model = bridge.modelId.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))
    expect(await ask('completions', { prompt: 'a', model })).toMatchObject({ error: { code: 'model_not_found' } })
  })
})
