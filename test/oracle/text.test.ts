import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { loadChatTemplate } from '../../core/model/text/chat-template.ts'
import { loadTokenizer } from '../../core/model/text/tokenizer.ts'
import { shared } from '../support/shared.ts'
import { fixtureDir, fixtureNames } from './fixtures.ts'

interface TextRow {
  ids: number[]
  withSpecial: number[]
  decoded: string
  skipped: string
}
interface ChatRow {
  fixture: string
  messages: { role: string; content: string }[]
  tools: object[] | null
  addGenerationPrompt: boolean
  rendered?: string
  error?: string
}

const read = (path: string): unknown =>
  JSON.parse(readFileSync(fileURLToPath(new URL(`fixtures/${path}`, import.meta.url)), 'utf8'))
const strings = read('strings.json') as string[]
const chats = (read('chat.json') as { cases: ChatRow[] }).cases

describe.each(fixtureNames)('%s: text as in transformers', (name) => {
  const rows = (read(`${name}/text.json`) as { rows: TextRow[] }).rows
  const cases = strings.map((text, at) => ({ text, ...(rows[at] as TextRow) }))
  const tokenizer = shared(() => loadTokenizer(fixtureDir(name)))

  it('covers 200 strings', () => {
    expect(new Set(strings).size).toBe(200)
    expect(rows).toHaveLength(200)
  })

  it('encodes each of them to the same ids, with and without special tokens', () => {
    for (const { text, ids, withSpecial } of cases) {
      expect(tokenizer.encode(text, { addSpecialTokens: false }), JSON.stringify(text)).toEqual(ids)
      expect(tokenizer.encode(text), JSON.stringify(text)).toEqual(withSpecial)
    }
  })

  it('decodes each of them to the same text, with and without special tokens', () => {
    for (const { text, withSpecial, decoded, skipped } of cases) {
      expect(tokenizer.decode(withSpecial), JSON.stringify(text)).toBe(decoded)
      expect(tokenizer.decode(withSpecial, { skipSpecialTokens: true }), JSON.stringify(text)).toBe(skipped)
    }
  })

  it('renders conversations to the same prompt or rejects them with the same message', async () => {
    const template = await loadChatTemplate(fixtureDir(name))
    const own = chats.filter((row) => row.fixture === name)
    expect(own.length).toBeGreaterThanOrEqual(15)
    for (const { messages, tools, addGenerationPrompt, rendered, error } of own) {
      // Brim tells a model of tools whose template does not, as transformers does not.
      const shown = name !== 'llama3-rope'
      const render = () => template?.render(messages, { ...(tools && shown ? { tools } : {}), addGenerationPrompt })
      if (error === undefined) expect(render()).toBe(rendered)
      else expect(render).toThrow(error)
    }
  })
})
