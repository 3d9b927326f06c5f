// As a namespace, here and in what it imports: the page's file then has what it uses of zod, and not its 50 languages.
import * as z from 'zod'
import { BrimReport, Usage } from './responses.ts'

/** Milliseconds since the question; at most a day. */
const atMs = z.number().min(0).max(86_400_000)

/** What happens to an answer under way, as its reader receives it. A line of a recording, as JSON. */
export const RecordedEvent = z.discriminatedUnion('event', [
  z.object({ event: z.literal('text'), atMs, text: z.string(), tokens: z.int().min(0).optional() }),
  /** The lines of the sketch that the text does not cover yet. */
  z.object({ event: z.literal('sketch'), atMs, lines: z.array(z.string()) }),
  z.object({ event: z.literal('notice'), atMs, text: z.string() }),
  z.object({ event: z.literal('complete'), atMs, report: BrimReport, usage: Usage.optional() }),
  z.object({ event: z.literal('failed'), atMs, message: z.string() }),
])
export type RecordedEvent = z.infer<typeof RecordedEvent>

/** The line before the events of an answer. */
const Question = z.object({
  event: z.literal('question'),
  question: z.string(),
  /** Empty: the server's default. */
  mode: z.string(),
  /** Of the reader; absent: it has not said. */
  tokensPerS: z.number().min(0).optional(),
})

export interface RecordedAnswer extends Omit<z.infer<typeof Question>, 'event'> {
  readonly events: readonly RecordedEvent[]
}

const Line = z.union([Question, RecordedEvent])

export const recordedLine = (line: z.input<typeof Line>): string => `${JSON.stringify(line)}\n`

/** Reads the lines of recordings, one after the other. @throws Error that names the line */
export function readRecording(text: string): RecordedAnswer[] {
  const answers: (RecordedAnswer & { events: RecordedEvent[] })[] = []
  for (const [at, json] of text.split('\n').entries()) {
    if (json.trim() === '') continue
    try {
      const line = Line.parse(JSON.parse(json))
      if (line.event === 'question') answers.push({ ...line, events: [] })
      else answers.at(-1)!.events.push(line)
    } catch (cause) {
      throw new Error(`line ${at + 1} is not one of a recorded answer`, { cause })
    }
  }
  return answers
}
