import type { AnswerReport } from '../../core/answer/endpoint/report.ts'
import type { RecordedEvent } from '../../core/wire/openai/recorded-answer.ts'
import type { Usage } from '../../core/wire/openai/responses.ts'

/** A piece of an answer as it came. */
export interface ShownPiece {
  /** Since the question. */
  readonly atMs: number
  readonly text: string
  /** Tokens of the answer up to it; undefined: the server does not tell. */
  readonly tokens: number | undefined
}

/** A question and its answer, as far as it has come. */
export interface Turn {
  readonly question: string
  /** Empty: the server's default. */
  readonly mode: string
  /** Tokens per second that the reader takes; undefined: it has not said. */
  readonly tokensPerS: number | undefined
  readonly state: 'asked' | 'complete' | 'stopped' | 'failed'
  readonly pieces: readonly ShownPiece[]
  /** Lines of the sketch that the text does not cover yet. */
  readonly uncovered: readonly string[]
  readonly notice?: string | undefined
  readonly error?: string
  readonly report?: AnswerReport
  readonly usage?: Usage | undefined
  readonly endMs?: number
}

export const askedTurn = ({
  question,
  mode,
  tokensPerS,
}: Pick<Turn, 'question' | 'mode'> & { tokensPerS?: number | undefined }): Turn => ({
  question,
  mode,
  tokensPerS,
  state: 'asked',
  pieces: [],
  uncovered: [],
})

export const answerText = ({ pieces }: Turn): string => pieces.map(({ text }) => text).join('')

/** The turn after something has happened to its answer. */
export function turnAfter(turn: Turn, event: RecordedEvent): Turn {
  switch (event.event) {
    case 'text': {
      const { atMs, text, tokens } = event
      return { ...turn, pieces: [...turn.pieces, { atMs, text, tokens }], notice: undefined }
    }
    case 'sketch':
      return { ...turn, uncovered: event.lines }
    case 'notice':
      return { ...turn, notice: event.text }
    case 'complete':
      // Of this page's release, or as near to it as its reader checks.
      return {
        ...turn,
        state: 'complete',
        report: event.report as unknown as AnswerReport,
        usage: event.usage,
        endMs: event.atMs,
      }
    case 'failed':
      return { ...turn, state: 'failed', error: event.message, endMs: event.atMs }
  }
}
