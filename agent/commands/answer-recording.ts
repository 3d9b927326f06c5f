import { systemClock } from '../../core/kit/base/clock.ts'
import { writePrivate } from '../../core/kit/base/private-file.ts'
import type { AnswerListeners } from '../../core/wire/openai/follow-answer.ts'
import { type RecordedAnswer, type RecordedEvent, recordedLine } from '../../core/wire/openai/recorded-answer.ts'

/** An event without its time. */
type Happened = RecordedEvent extends infer Event ? (Event extends RecordedEvent ? Omit<Event, 'atMs'> : never) : never

interface AnswerRecording extends AnswerListeners {
  /** The last event. @throws BrimError TARGET_UNWRITABLE */
  end(event: Happened): void
}

/**
 * Records what the reader of an answer receives, in a file of this user: the question and the text are in it.
 * @param listeners receive it, too
 * @throws BrimError TARGET_UNWRITABLE, before anything is asked
 */
export function recordAnswer(
  path: string,
  question: Omit<RecordedAnswer, 'events'>,
  listeners: Required<AnswerListeners>,
): AnswerRecording {
  const askedMs = systemClock.nowMs()
  let lines = recordedLine({ event: 'question', ...question })
  writePrivate(path, lines)
  const add = (event: Happened) => {
    lines += recordedLine({ ...event, atMs: systemClock.nowMs() - askedMs } as RecordedEvent)
  }
  return {
    onText(text, tokens) {
      add({ event: 'text', text, tokens })
      listeners.onText(text, tokens)
    },
    onSketch(lines) {
      add({ event: 'sketch', lines: [...lines] })
      listeners.onSketch(lines)
    },
    onNotice(text) {
      add({ event: 'notice', text })
      listeners.onNotice(text)
    },
    end(event) {
      add(event)
      writePrivate(path, lines)
    },
  }
}
