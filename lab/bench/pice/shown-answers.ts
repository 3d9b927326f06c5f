import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import { toDigits } from '../../frame/tables.ts'
import type { Answered } from './asking.ts'
import type { PiceRun } from './runs.ts'

/** A sketched answer, for a person to read. */
export interface ShownAnswer {
  readonly question: string
  readonly sketch: readonly string[]
  readonly text: string
  /** Sentences that the LLM had to write. */
  readonly completedSentences: number
  readonly rouge1: number | null
  readonly confidence: number | null
}

const maxShown = 20

/** Sketched answers to different questions. @param answers those of the run's samples */
export function shownAnswers(
  prompts: readonly FilePrompt[],
  { samples }: Pick<PiceRun, 'samples'>,
  answers: readonly Pick<Answered, 'text' | 'sketch'>[],
): ShownAnswer[] {
  const shown = new Map<string, ShownAnswer>()
  for (const [at, { prompt: id, by, completedSentences, quality }] of samples.entries()) {
    if (by !== 'sketch' || shown.has(id) || shown.size === maxShown) continue
    const { messages = [] } = prompts.find((prompt) => prompt.id === id)!
    const question = messages.findLast(({ role }) => role === 'user')?.content ?? ''
    const { rouge1 = null, confidence = null } = quality ?? {}
    shown.set(id, { question, ...answers[at]!, completedSentences, rouge1, confidence })
  }
  return [...shown.values()]
}

/** Of documents that have them. */
export function answersText({ conditions }: BenchDocument): string {
  const answers = (conditions.answers ?? []) as readonly ShownAnswer[]
  if (answers.length === 0) return ''
  const quoted = (text: string) =>
    text
      .split('\n')
      .map((line) => `> ${line.replace(/[<>&*_\\`|]/g, '\\$&')}`.trimEnd())
      .join('\n')
  const shown = answers.map(({ question, sketch, text, completedSentences, rouge1, confidence }) => {
    const by = completedSentences > 0 ? `, ${completedSentences} by the LLM` : ''
    return `${quoted(question)}

Sketch: ${sketch.map((line) => `\`${line.replaceAll('`', "'")}\``).join(' · ')}

${quoted(text)}

ROUGE-1 ${toDigits(rouge1, 2)}, confidence ${toDigits(confidence, 2)}${by}.`
  })
  return `## Sketched answers, to be read

Question, sketch and answer of ${answers.length} requests of PICE at the paper's load.

${shown.join('\n\n---\n\n')}`
}
