import { array, assert, constantFrom, integer, property, string, tuple } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ReasoningReader, reasoningOf } from '../../../../core/model/text/reasoning-reader.ts'
import { hermes, type ToolFormat, toolFormatOf } from '../../../../core/model/text/tool-format.ts'
import { ToolReader } from '../../../../core/model/text/tool-reader.ts'

const formats: Record<string, ToolFormat> = {
  hermes,
  llama: toolFormatOf('{"name": function name, "parameters": dictionary of argument name and its value}'),
  mistral: toolFormatOf('{{ "[TOOL_CALLS] [" }}'),
  'mistral with ARGS': toolFormatOf('[TOOL_CALLS]{{ name }}[ARGS]'),
  qwen: toolFormatOf('<tool_call>\n<function=example>'),
}

/** Reads a text in pieces of these lengths, again and again. */
function read(reader: ToolReader, text: string, lengths: readonly number[]) {
  let plain = ''
  const calls: { name: string; arguments: string }[] = []
  for (let at = 0, nth = 0; at < text.length || nth === 0; nth++) {
    const end = Math.min(text.length, at + lengths[nth % lengths.length]!)
    const piece = reader.push(text.slice(at, end), end >= text.length)
    plain += piece.text
    for (const { index, name, arguments: part } of piece.calls) {
      calls[index] ??= { name: name!, arguments: '' }
      calls[index].arguments += part
    }
    at = end
  }
  return { plain, calls }
}

const written = (format: ToolFormat, name: string, values: Record<string, unknown>): string => {
  const parameters = Object.entries(values).map(([key, value]) => `<parameter=${key}>\n${String(value)}\n</parameter>`)
  return `${format.begin(name)}${format.arguments === 'xml' ? parameters.join('\n') : JSON.stringify(values)}${format.end}`
}

describe.each(Object.entries(formats))('calls as %s writes them', (_, format) => {
  it('are read in whatever pieces they come, with the text around them', () => {
    const lengths = array(integer({ min: 1, max: 9 }), { minLength: 1 })
    const call = tuple(
      constantFrom('find', 'find_all'),
      string({ maxLength: 12 }).map((text) => text.replace(/[<>]/g, '').trim() || 'x'),
    )
    assert(
      property(array(call, { maxLength: 3 }), constantFrom('', 'So: ', 'a < b [ { '), lengths, (all, before, pieces) => {
        const values = all.map(([name, city]) => [name, { city: `${city}}]"\\`, n: 3 }] as const)
        const text = before + values.map(([name, own]) => written(format, name, own)).join('\n')
        const result = read(new ToolReader(format, ['find', 'find_all']), text, pieces)
        expect(result.plain).toBe(before)
        expect(result.calls.map(({ name, arguments: own }) => [name, JSON.parse(own)])).toEqual(values)
      }),
    )
  })

  it('of functions that were not given are text', () => {
    const text = written(format, 'other', { city: 'Rome' })
    expect(read(new ToolReader(format, ['find']), text, [3])).toEqual({ plain: text, calls: [] })
  })

  it('that are cut off keep what there is', () => {
    const { calls, plain } = read(new ToolReader(format, ['find']), written(format, 'find', { city: 'Rome' }).slice(0, -14), [4])
    expect(calls[0]!.name).toBe('find')
    expect(plain).toBe('')
  })
})

it('text that looks like the beginning of a call is not lost', () => {
  for (const text of ['<tool', '<tool_call', '<tool_call>', '<tool_call>\n{"na', 'a <tool_call> b'])
    expect(read(new ToolReader(hermes, ['find']), text, [1]).plain).toBe(text)
})

describe('reasoning', () => {
  const template = '{{ "<think>" }} … {{ "</think>" }}'
  const split = (text: string, promptEnd: string, length: number) => {
    const reader = new ReasoningReader(reasoningOf(template, promptEnd)!)
    const all = { reasoning: '', text: '' }
    for (let at = 0; at < text.length; at += length) {
      const { reasoning, text: own } = reader.push(text.slice(at, at + length), at + length >= text.length)
      all.reasoning += reasoning
      all.text += own
    }
    return all
  }

  it.each([1, 2, 5, 100])('is told apart from the answer, in pieces of %i', (length) => {
    expect(split('<think>a <b> c</think>\n\nYes.', '', length)).toEqual({ reasoning: 'a <b> c', text: 'Yes.' })
    expect(split('a <b> c</think>\n\nYes.', 'assistant\n<think>\n', length)).toEqual({ reasoning: 'a <b> c', text: 'Yes.' })
    expect(split('Yes, <think> is a tag.', '', length)).toEqual({ reasoning: '', text: 'Yes, <think> is a tag.' })
    expect(split('<think>cut of', '', length)).toEqual({ reasoning: 'cut of', text: '' })
  })

  it('is not looked for where the template knows none', () => {
    expect(reasoningOf('{{ messages }}', '')).toBeUndefined()
  })
})
