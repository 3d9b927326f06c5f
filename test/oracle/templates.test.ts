import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parseTemplate } from '../../core/model/text/jinja/template.ts'

// Written by scripts/train/oracle/make_templates.py with the real transformers.
const read = (file: string) => readFileSync(fileURLToPath(new URL(`fixtures/templates/${file}`, import.meta.url)), 'utf8')
const oracle = JSON.parse(read('rendered.json')) as {
  conversations: { messages: object[]; tools: object[] | null; addGenerationPrompt: boolean }[]
  /** By template and conversation; null where transformers refuses the conversation. */
  rendered: Record<string, (string | null)[]>
  snippets: Record<string, string | null>
}

const options = { now: new Date(), maxSteps: 20_000 }

describe.each(Object.entries(oracle.rendered))('the template of %s', (name, expected) => {
  const template = parseTemplate(read(`${name}.jinja`))
  const cases = oracle.conversations.map((conversation, at) => ({ ...conversation, at, expected: expected[at] }))

  it.each(cases)('renders conversation $at as transformers does', ({ messages, tools, addGenerationPrompt, expected }) => {
    const variables = { messages, tools, documents: null, add_generation_prompt: addGenerationPrompt }
    const render = () => template.render({ bos_token: '<s>', eos_token: '</s>', ...variables }, options)
    if (expected === null) expect(render).toThrow()
    else expect(render()).toBe(expected)
  })
})

it.each(Object.entries(oracle.snippets))('renders %s as transformers does', (source, expected) => {
  const render = () => parseTemplate(source).render({ nothing: null }, options)
  if (expected === null) expect(render).toThrow()
  else expect(render()).toBe(expected)
})

it('covers six templates and 22 conversations', () => {
  expect(Object.keys(oracle.rendered)).toHaveLength(6)
  expect(oracle.conversations).toHaveLength(22)
})
