import type { AnswerReport } from '../../core/answer/endpoint/report.ts'
import type { RecordedAnswer, RecordedEvent } from '../../core/wire/openai/recorded-answer.ts'
import type { Usage } from '../../core/wire/openai/responses.ts'

type Asked = Pick<RecordedAnswer, 'question' | 'mode' | 'tokensPerS'>

/** A question and its answer, as far as it has come. */
export interface Turn extends Asked {
  readonly state: 'asked' | 'complete' | 'stopped' | 'failed'
  /** What came, and when. */
  readonly pieces: readonly Omit<Extract<RecordedEvent, { event: 'text' }>, 'event'>[]
  /** Lines of the sketch that the text does not cover yet. */
  readonly uncovered: readonly string[]
  readonly notice?: string | undefined
  readonly error?: string
  readonly report?: AnswerReport
  readonly usage?: Usage | undefined
  readonly endMs?: number
}

export const askedTurn = ({ question, mode, tokensPerS }: Asked): Turn => {
  return { question, mode, tokensPerS, state: 'asked', pieces: [], uncovered: [] }
}

export const answerText = ({ pieces }: Turn): string => pieces.map(({ text }) => text).join('')

/** The turn after something has happened to its answer. */
export function turnAfter(turn: Turn, event: RecordedEvent): Turn {
  const { atMs } = event
  switch (event.event) {
    case 'text':
      return { ...turn, pieces: [...turn.pieces, event], notice: undefined }
    case 'sketch':
      return { ...turn, uncovered: event.lines }
    case 'notice':
      return { ...turn, notice: event.text }
    case 'complete': {
      // Of this page's release, or as near to it as its reader checks.
      const report = event.report as unknown as AnswerReport
      return { ...turn, state: 'complete', report, usage: event.usage, endMs: atMs }
    }
    case 'failed':
      return { ...turn, state: 'failed', error: event.message, endMs: atMs }
  }
}
