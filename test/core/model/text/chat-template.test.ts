import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadChatTemplate } from '../../../../core/model/text/chat-template.ts'

describe('a chat template', () => {
  let dir: string
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'brim-template-'))
  })
  afterEach(() => rm(dir, { recursive: true }))
  const config = (content: object) => writeFile(join(dir, 'tokenizer_config.json'), JSON.stringify(content))

  it('is undefined if the checkpoint has none', async () => {
    expect(await loadChatTemplate(dir)).toBeUndefined()
    await config({ bos_token: '<s>', chat_template: null })
    expect(await loadChatTemplate(dir)).toBeUndefined()
  })

  it('in chat_template.jinja takes precedence over tokenizer_config.json', async () => {
    await config({ bos_token: { content: '<s>' }, chat_template: 'old' })
    expect((await loadChatTemplate(dir))?.render([])).toBe('old')
    await writeFile(join(dir, 'chat_template.jinja'), '{{ bos_token }}{{ messages[0].content }}')
    expect((await loadChatTemplate(dir))?.render([{ role: 'user', content: 'hi' }])).toBe('<s>hi')
  })

  it('with a syntax error is rejected with the name of its file', async () => {
    await config({ chat_template: 'fine {% for m in messages %}' })
    await expect(loadChatTemplate(dir)).rejects.toMatchObject({
      code: 'CHAT_TEMPLATE_INVALID',
      message: expect.stringContaining(join(dir, 'tokenizer_config.json')),
    })
    await writeFile(join(dir, 'chat_template.jinja'), '{% endif %}')
    await expect(loadChatTemplate(dir)).rejects.toMatchObject({
      code: 'CHAT_TEMPLATE_INVALID',
      message: expect.stringContaining('chat_template.jinja'),
    })
  })

  it.each([
    [
      '{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}',
      'steps',
    ],
    ['{{ range(1000000000) | length }}', 'range'],
  ])('that would take hours or gigabytes is refused within milliseconds: %s', async (source, why) => {
    await config({ chat_template: source })
    const template = await loadChatTemplate(dir)
    const startedMs = performance.now()
    expect(() => template?.render([{ role: 'user', content: 'hi' }])).toThrow(
      expect.objectContaining({ code: 'REQUEST_INVALID', message: expect.stringContaining(why) }),
    )
    expect(performance.now() - startedMs).toBeLessThan(1_000)
  })

  it('may read every message of a long conversation twice', async () => {
    await config({
      chat_template:
        '{% for m in messages[::-1] %}{% set last = m.role %}{% endfor %}{% for m in messages %}{{ m.role + m.content }}{% endfor %}',
    })
    const messages = Array.from({ length: 4_096 }, () => ({ role: 'user', content: 'a' }) as const)
    expect((await loadChatTemplate(dir))?.render(messages)).toHaveLength(4_096 * 5)
  })

  it('without a default is rejected with the names of the others', async () => {
    await config({ chat_template: [{ name: 'rag', template: 'x' }] })
    const template = await loadChatTemplate(dir)
    expect(() => template?.render([])).toThrow(
      expect.objectContaining({ code: 'CHAT_TEMPLATE_INVALID', message: expect.stringContaining('rag') }),
    )
  })

  it('that refuses a conversation makes it an invalid request, with the reason', async () => {
    const template = await loadChatTemplate(fileURLToPath(new URL('../../../oracle/fixtures/llama3-rope', import.meta.url)))
    const twice = [
      { role: 'user', content: 'one' },
      { role: 'user', content: 'two' },
    ]
    expect(() => template?.render(twice)).toThrow(
      expect.objectContaining({ code: 'REQUEST_INVALID', message: expect.stringContaining('alternate') }),
    )
  })

  describe('given an assistant message of tool calls, without content', () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } }
    const messages = [
      { role: 'user', content: 'Is it raining?' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', content: 'yes', tool_call_id: 'call_1' },
      { role: 'assistant', content: null, tool_calls: [] },
    ]

    it('that renders calls gets their arguments as a mapping, and no empty lists', async () => {
      const loop =
        "{% for m in messages %}{% if 'tool_calls' in m %}CALL {{ m.tool_calls[0].function | tojson }}{% else %}{{ m.role + ': ' + m.content }}{% endif %};{% endfor %}"
      await config({ chat_template: loop })
      expect((await loadChatTemplate(dir))?.render(messages)).toBe(
        'user: Is it raining?;CALL {"name": "weather", "arguments": {"city": "Bern"}};tool: yes;assistant: ;',
      )
    })

    it('that does not know calls gets them as text', async () => {
      await config({ chat_template: "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }};{% endfor %}" })
      const template = await loadChatTemplate(dir)
      expect(template?.render(messages)).toBe(
        'user: Is it raining?;assistant: {"name":"weather","arguments":{"city":"Bern"}};tool: yes;assistant: ;',
      )
      const spoken = [{ role: 'assistant', content: 'I look.', tool_calls: [{ function: { name: 'f', arguments: 'x=1' } }] }]
      expect(template?.render(spoken)).toBe('assistant: I look.\n{"name":"f","arguments":"x=1"};')
    })
  })
})
