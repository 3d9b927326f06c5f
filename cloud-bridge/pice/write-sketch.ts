import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { sketchInstruction, withInstruction } from '../../core/answer/sketch/prompts.ts'
import { fitToRequest, formText, requestedForm } from '../../core/answer/sketch/requested-form.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import { maxSketchLines } from '../../core/wire/protocol/expansion.ts'
import type { Asked, Llm } from './llm.ts'
import type { OpenedLines } from './opened-lines.ts'
import { maxReplyTokens } from './reply-length.ts'
import { SketchReader } from './sketch-reader.ts'

export interface SketchParts {
  readonly llm: Llm
  /** From the plan to the end of the sketch; then the LLM answers in full. */
  readonly maxSketchMs: number
  readonly clock: Clock
  readonly logger: Logger
}

export interface SketchRequest {
  readonly id: string
  readonly asked: Asked
  readonly plan: Pick<SketchPlan, 'level' | 'sketchTokens'>
  readonly signal: AbortSignal
  /** Lines that were written before an interruption; absent: none. */
  readonly before?: readonly string[]
  /** What the client has of the answer: the lines of `progress`, `text` and the result begin with its lines. */
  readonly opened: OpenedLines
  /** The LLM has written more tokens. */
  counted(tokens: number): void
  /** Further lines are complete: what the client gets of them. @param lines all so far */
  progress(lines: readonly string[]): TextDelta
  /** What the client gets of the answer, each time the LLM has written something. @param lines complete ones, so far */
  text(lines: readonly string[]): Iterable<TextDelta>
}

/**
 * Why the LLM answers in full after it was asked for a sketch: too few lines, no end, an error or too late, or its lines cannot have
 * the form that the request asks for.
 */
export type SketchFailure = 'sketch-short' | 'sketch-long' | 'sketch-failed' | 'sketch-form'

/** A sketch that its length limit cuts is gone on with in so many replies at most. */
const maxReplies = 3

const soFar = (asked: Asked, instruction: string, lines: readonly string[]): Asked => ({
  ...asked,
  messages: [...withInstruction(asked.messages, instruction), { role: 'assistant', content: lines.join('\n') }],
})

/** The lines of a sketch by the LLM, each sent when it is complete. @throws BrimError CANCELED */
export async function* writeSketch(
  { llm, maxSketchMs, clock, logger }: SketchParts,
  { id, asked, plan: { level, sketchTokens }, signal, before: given = [], opened, counted, progress, text }: SketchRequest,
): AsyncGenerator<TextDelta, readonly string[] | SketchFailure> {
  const reader = new SketchReader()
  const lines = [...given]
  if (lines.length > 0 && !llm.prompts.sketchNext) return lines
  const done = new AbortController()
  const late = clock.sleep(maxSketchMs, done.signal).then(
    () => done.abort(),
    () => {},
  )
  const form = requestedForm(asked.messages)
  const begun = opened.text !== '' && llm.prompts.sketchOpened !== undefined
  const instruction = sketchInstruction(llm.prompts, level, sketchTokens, formText(form), begun)
  const messages = begun ? [...asked.messages, { role: 'assistant' as const, content: opened.text }] : asked.messages
  const conversation = { ...asked, messages }
  const within = AbortSignal.any([signal, done.signal])
  const limits = { maxTokens: maxReplyTokens(sketchTokens) }
  let end: TextDelta['end']
  try {
    for (let replies = lines.length > 0 ? 2 : 1; ; replies++) {
      const reply =
        replies === 1
          ? llm.reply(conversation, instruction, limits, within)
          : llm.reply(soFar(conversation, instruction, lines), llm.prompts.sketchNext!, limits, within)
      const before = lines.length
      for await (const delta of reply) {
        const complete = reader.push(delta.text)
        if (delta.end === 'stop') complete.push(...reader.end())
        counted(delta.tokenCount)
        lines.push(...complete)
        end = delta.end
        const all = opened.with(lines, delta.end !== undefined)
        if (complete.length > 0 && all.length > 0) yield progress(all)
        yield* text(all)
        if (reader.isFull) break
      }
      const isWhole = end === 'stop' || reader.isFull
      if (isWhole || !llm.prompts.sketchNext || lines.length === before || replies === maxReplies) break
      reader.cut()
    }
  } catch (err) {
    signal.throwIfAborted()
    logger.info({ err, answer: id }, 'no sketch: the LLM answers in full')
    return 'sketch-failed'
  } finally {
    done.abort()
    await late
  }
  if (lines.length >= maxSketchLines) return 'sketch-long'
  // What a model has written before it began to loop is a sketch.
  if (reader.isTooLong || (end !== 'stop' && !reader.isFull)) return 'sketch-long'
  const all = opened.with(lines, true)
  if (all.length < 2) return 'sketch-short'
  const fitted = fitToRequest(all, form)
  return fitted && opened.begins(fitted) ? fitted : 'sketch-form'
}
