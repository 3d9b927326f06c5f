import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { type ChatTemplate, loadChatTemplate } from '../../../core/model/text/chat-template.ts'
import { readPrompts } from '../../../core/model/text/prompt-file.ts'
import { loadTokenizer, type TextTokenizer } from '../../../core/model/text/tokenizer.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
let tokenizer: TextTokenizer
let chatTemplate: ChatTemplate | undefined
beforeAll(async () => {
  const folder = fixtureDir('llama')
  tokenizer = await loadTokenizer(folder)
  chatTemplate = await loadChatTemplate(folder)
})

const check = (ids: readonly number[]) => {
  if (ids.length > 60) throw new BrimError('CONTEXT_OVERFLOW', 'the prompt is too long')
}
const read = (content: string | Buffer, template = chatTemplate) => {
  const file = join(dir.path, 'prompts.jsonl')
  writeFileSync(file, content)
  return readPrompts(file, { tokenizer, chatTemplate: template, check })
}
/** For a bundle without a chat template. */
const readWithout = (content: string) => {
  const file = join(dir.path, 'bare.jsonl')
  writeFileSync(file, content)
  return readPrompts(file, { tokenizer, chatTemplate: undefined, check })
}

describe('a prompt file', () => {
  it('passes text through the chat template as a user message', async () => {
    const [text, messages] = await read('{"prompt": "a b"}\n{"messages": [{"role": "user", "content": "a b"}]}')
    expect(text!.ids).toEqual(messages!.ids)
    expect(tokenizer.decode([...text!.ids])).toContain('a b')
  })

  it('may name prompts and tasks, and may have blank lines, a byte order mark and CRLF', async () => {
    const prompts = await read('\uFEFF{"prompt": "a", "id": 7, "task": "story"}\r\n\r\n{"prompt": "b"}\r\n')
    expect(prompts.map(({ id, task }) => ({ id, task }))).toEqual([
      { id: '7', task: 'story' },
      { id: 'line 3', task: 'prompts' },
    ])
  })

  it('needs no chat template for text', async () => {
    const bare = await readWithout('{"prompt": "a b"}')
    expect(bare[0]!.ids).toEqual(tokenizer.encode('a b'))
  })

  it('needs a chat template for messages', async () => {
    await expect(readWithout('{"messages": [{"role": "user", "content": "a"}]}')).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringMatching(/bare\.jsonl, line 1: .*needs a chat template/),
    })
  })

  it.each([
    { what: 'a line that is not JSON', line: '{"prompt": ', code: 'REQUEST_INVALID', message: /not JSON/ },
    {
      what: 'neither prompt nor messages',
      line: '{"text": "a"}',
      code: 'REQUEST_INVALID',
      message: /"prompt" or "messages" is missing/,
    },
    {
      what: 'both',
      line: '{"prompt": "a", "messages": [{"role": "user", "content": "a"}]}',
      code: 'REQUEST_INVALID',
      message: /exclude each other/,
    },
    { what: 'an empty prompt', line: '{"prompt": ""}', code: 'REQUEST_INVALID', message: /prompt: / },
    {
      what: 'messages of another form',
      line: '{"messages": [{"role": "user"}]}',
      code: 'REQUEST_INVALID',
      message: /messages\.0\.content: /,
    },
    {
      what: 'a task of two lines',
      line: '{"prompt": "a", "task": "a\\nb"}',
      code: 'REQUEST_INVALID',
      message: /task: must be one line of text/,
    },
    {
      what: 'an id with terminal control characters',
      line: '{"prompt": "a", "id": "\\u001b[2J"}',
      code: 'REQUEST_INVALID',
      message: /id: /,
    },
    { what: 'a line that is no object', line: '["a"]', code: 'REQUEST_INVALID', message: /line 2: / },
    { what: 'bytes that are not UTF-8', line: Buffer.from([0x7b, 0xff, 0x7d]), code: 'REQUEST_INVALID', message: /not UTF-8/ },
    { what: 'a prompt too long', line: `{"prompt": "${'a b '.repeat(60)}"}`, code: 'CONTEXT_OVERFLOW', message: /too long/ },
  ])('is rejected for $what, naming file and line', async ({ line, code, message }) => {
    const content = Buffer.concat([Buffer.from('{"prompt": "fine"}\n'), Buffer.from(line), Buffer.from('\n')])
    const refusal = read(content)
    await expect(refusal).rejects.toMatchObject({ code, message: expect.stringMatching(/prompts\.jsonl, line 2: /) })
    await expect(refusal).rejects.toMatchObject({ message: expect.stringMatching(message) })
  })

  it('is rejected if it is empty or missing', async () => {
    await expect(read('\n\n')).rejects.toMatchObject({ code: 'REQUEST_INVALID', message: expect.stringContaining('no prompts') })
    await expect(readPrompts(join(dir.path, 'none.jsonl'), { tokenizer, chatTemplate, check })).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      message: expect.stringContaining('none.jsonl'),
    })
  })
})
