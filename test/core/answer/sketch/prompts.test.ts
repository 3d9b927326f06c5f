import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { loadPicePrompts, readPicePrompts } from '../../../../core/answer/sketch/load-prompts.ts'
import {
  expandInstruction,
  expandNextInstruction,
  generalPrompts,
  sketchInstruction,
  withInstruction,
} from '../../../../core/answer/sketch/prompts.ts'
import { projectRoot } from '../../../../core/kit/base/version.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const trainedFile = fileURLToPath(new URL('models/demo/llm/pice-prompts.json', projectRoot))

describe('the prompts of a bundle', () => {
  it('are those that its model brought', async () => {
    using bundle = tempDir()
    mkdirSync(join(bundle.path, 'tokenizer'))
    cpSync(trainedFile, join(bundle.path, 'tokenizer', 'pice-prompts.json'))
    expect(await loadPicePrompts(bundle.path)).toMatchObject({
      foresightUnit: 'tokens',
      sketch: expect.stringContaining('{level}'),
    })
  })

  it('are general ones, or those of the operator, where the model brought none', async () => {
    using bundle = tempDir()
    expect(await loadPicePrompts(bundle.path)).toBe(generalPrompts)
    const own = { ...generalPrompts, foresight: 'How long?' }
    expect(await loadPicePrompts(bundle.path, own)).toBe(own)
  })
})

describe('a file of prompts', () => {
  const read = async (content: string) => {
    using folder = tempDir()
    const file = join(folder.path, 'prompts.json')
    writeFileSync(file, content)
    return await readPicePrompts(file)
  }
  const changed = (fields: object) => read(JSON.stringify({ ...generalPrompts, ...fields }))

  it('may change every text', async () => {
    expect(await changed({ expandNext: 'Next: {line}' })).toEqual({ ...generalPrompts, expandNext: 'Next: {line}' })
  })

  it.each([
    ['no JSON', () => read('{'), 'it is not JSON'],
    ['a missing field', () => changed({ sketch: undefined }), 'sketch: is missing'],
    ['an unknown field', () => changed({ sketches: 'x' }), 'unknown: sketches'],
    ['a missing placeholder', () => changed({ expand: 'Write {line}' }), 'expand: must contain {sketch}'],
    ['neither of two placeholders', () => changed({ sketch: 'Be brief.' }), 'sketch: must contain {level} or {words}'],
    ['shares that do not descend', () => changed({ sketchShares: [0.2, 0.4] }), 'sketchShares: must descend'],
    ['another unit', () => changed({ foresightUnit: 'pages' }), 'foresightUnit: must be one of tokens, words'],
    ['a huge file', () => read(' '.repeat(70_000)), 'it has more than 65536 bytes'],
    ['no file', () => readPicePrompts('/nowhere/prompts.json'), 'it cannot be read'],
  ])('is refused with the reason: %s', async (_, open, why) => {
    await expect(open()).rejects.toMatchObject({ code: 'PROMPTS_INVALID', message: expect.stringContaining(why) })
  })
})

describe('an instruction', () => {
  it('is the last paragraph of the last user message, so that all share what precedes it', () => {
    const query = [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'What is a lamp?' },
    ]
    expect(withInstruction(query, 'How long?')).toEqual([query[0], { role: 'user', content: 'What is a lamp?\n\nHow long?' }])
    expect(query[1]!.content).toBe('What is a lamp?')
  })

  it('is a message of its own after an answer', () => {
    const messages = [{ role: 'assistant', content: 'A lamp gives light.' }]
    expect(withInstruction(messages, 'Next.')).toEqual([...messages, { role: 'user', content: 'Next.' }])
    expect(withInstruction([], 'Next.')).toEqual([{ role: 'user', content: 'Next.' }])
  })

  it('names the level, or the length in words', () => {
    expect(sketchInstruction({ ...generalPrompts, sketch: 'level {level}, {words} words. {form}' }, 2, 80, 'A list.')).toBe(
      'level 2, 60 words. A list.',
    )
  })

  it('has sketch and line as they are, braces and dollars included', () => {
    const sketch = ['costs $& and $1', 'the {line} of {sketch}']
    const asked = { line: sketch[1]!, at: 1, count: 2, tokens: 40 }
    const expand = expandInstruction(
      { ...generalPrompts, expand: '{sketch}|{place} of {count}, {words} words: {line}' },
      sketch,
      asked,
    )
    expect(expand).toBe('costs $& and $1\nthe {line} of {sketch}|2 of 2, 30 words: the {line} of {sketch}')
    expect(expandNextInstruction({ ...generalPrompts, expandNext: '>{line}' }, { ...asked, line: sketch[0]! })).toBe(
      '>costs $& and $1',
    )
  })

  it('of an expansion differs from others of the sketch only at its end', () => {
    const sketch = ['first', 'second']
    const [one, other] = sketch.map((line, at) => expandInstruction(generalPrompts, sketch, { line, at, count: 2, tokens: 40 }))
    expect(one).toMatch(/Point 1 of 2, about 30 words. Key words: first$/)
    expect(one!.replace('Point 1 of', 'Point 2 of').slice(0, -'first'.length)).toBe(other!.slice(0, -'second'.length))
  })
})
