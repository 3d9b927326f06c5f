import { expect, it } from 'vitest'
import type { PiceSample } from '../../../../lab/bench/pice/runs.ts'
import { answersText, shownAnswers } from '../../../../lab/bench/pice/shown-answers.ts'
import type { BenchDocument } from '../../../../lab/frame/bench.ts'

const prompts = ['a', 'b', 'c'].map((id) => ({ id, messages: [{ role: 'user', content: `Question ${id}?` }] })) as never
const sample = (prompt: string, by: PiceSample['by']) => {
  const quality = { rouge1: 0.5, meanLog2Probability: -1, confidence: 0.75 }
  return { prompt, by, completedSentences: 1, quality } as PiceSample
}

it('shows each question once, with the sketch and the answer that it got, sketched ones only', () => {
  const samples = [sample('a', 'cloud'), sample('b', 'sketch'), sample('b', 'sketch'), sample('c', 'sketch')]
  const answers = samples.map(({ prompt }, at) => ({ text: `*Text* ${at}\n| of ${prompt}`, sketch: [`line \`${at}\``] }))
  const shown = shownAnswers(prompts, { samples }, answers)
  expect(shown.map(({ question, sketch }) => [question, sketch])).toEqual([
    ['Question b?', ['line `1`']],
    ['Question c?', ['line `3`']],
  ])
  const text = answersText({ conditions: { answers: shown } } as unknown as BenchDocument)
  expect(text).toContain(
    "> Question b?\n\nSketch: `line '1'`\n\n> \\*Text\\* 1\n> \\| of b\n\nROUGE-1 0.50, confidence 0.75, 1 by the LLM.",
  )
  expect(answersText({ conditions: {} } as unknown as BenchDocument)).toBe('')
})
