import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readRecording, recordedLine } from '../../../../core/wire/openai/recorded-answer.ts'

const question = { event: 'question', question: 'Where is it?', mode: 'private', tokensPerS: 5 } as const
const text = (atMs: number) => ({ event: 'text', atMs, text: 'here', tokens: 1 }) as const

describe('a recording of answers', () => {
  it('has each question with what happened to its answer', () => {
    const lines = [question, text(5), { ...question, question: 'And now?', tokensPerS: undefined }, text(7), text(9)]
    expect(readRecording(lines.map(recordedLine).join(''))).toEqual([
      { ...question, events: [text(5)] },
      { ...question, question: 'And now?', tokensPerS: undefined, events: [text(7), text(9)] },
    ])
    expect(readRecording('')).toEqual([])
  })

  it.each([
    ['no JSON', 'nothing', 1],
    ['an event before any question', recordedLine(text(5)), 1],
    ['an event of another kind', `${recordedLine(question)}{"event":"code","atMs":1}`, 2],
    ['a time before the question', `${recordedLine(question)}{"event":"text","atMs":-1,"text":"x"}`, 2],
    ['a report without its fields', `${recordedLine(question)}\n{"event":"complete","atMs":1,"report":{}}`, 3],
  ])('names the line where it is none: %s', (_, content, line) => {
    expect(() => readRecording(content)).toThrow(`line ${line} is not one of a recorded answer`)
  })

  it('is read without any other failure, whatever is in the file', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.json(), fc.string(), fc.constant(recordedLine(question).trim()))), (lines) => {
        try {
          readRecording(lines.join('\n'))
        } catch (error) {
          expect((error as Error).message).toMatch(/^line \d+ is not one of a recorded answer$/)
        }
      }),
    )
  })
})
