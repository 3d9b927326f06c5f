import { z } from 'zod'
import type { ChatMessage } from '../../model/text/chat-message.ts'
import general from './general-prompts.json' with { type: 'json' }

const placeholders = ['level', 'words', 'sketch', 'line', 'place', 'count', 'form'] as const
type Placeholder = (typeof placeholders)[number]

/** @param wanted placeholders of which the text has at least one */
const template = (...wanted: Placeholder[]) =>
  z
    .string()
    .trim()
    .min(1)
    .max(8_192)
    .refine((text) => wanted.length === 0 || wanted.some((name) => text.includes(`{${name}}`)), {
      error: `must contain ${wanted.map((name) => `{${name}}`).join(' or ')}`,
    })

/**
 * What PICE asks its models. Each text becomes the last paragraph of the last user message, so that foresight, sketch and the full
 * answer share the KV of everything before it, and the expansions of one sketch that of query and sketch. Therefore {line} comes
 * last in `expand`. Placeholders: {level}, {words} and {form} in `sketch`, {sketch} in `expand`; in `expand` and `expandNext` {line}, its {place}
 * among {count} lines and the {words} that it should have.
 */
export const PicePrompts = z
  .strictObject({
    /** Asks for the answer's length; the reply is a number of `foresightUnit`. */
    foresight: template(),
    foresightUnit: z.enum(['tokens', 'words']),
    sketch: template('level', 'words'),
    /**
     * Said after `sketch` where the LLM has begun to answer, in a message of its own before. Absent: it sketches all of its answer, so
     * that only one of little randomness (`maxOpenedTemperature`) is begun before its sketch.
     */
    sketchOpened: template().optional(),
    /** Asks for the rest of a sketch that its length limit cut. Absent: then the answer is written in full. */
    sketchNext: template().optional(),
    /** Sketch levels, longest first: the expected share of the full answer's tokens at level 1, 2, … */
    sketchShares: z
      .array(z.number().gt(0).lt(1))
      .min(1)
      .max(16)
      .refine((shares) => shares.every((share, at) => at === 0 || share < shares[at - 1]!), 'must descend'),
    expand: template('line').refine((text) => text.includes('{sketch}'), 'must contain {sketch}'),
    /** Asks for another line in the same conversation. */
    expandNext: template('line'),
  })
  .readonly()
export type PicePrompts = z.infer<typeof PicePrompts>

/** For any model that follows instructions. */
export const generalPrompts: PicePrompts = PicePrompts.parse(general)

/** Tokens of an English word, as OpenAI's documentation gives it; what it misses, the correction of foresight learns. */
export const tokensPerWord = 4 / 3

/** Above it, the beginning of an answer and a sketch of all of it are two answers. */
export const maxOpenedTemperature = 0.3

/**
 * @param level from 1. @param tokens expected length of the sketch. @param form that the request asks for, a sentence or ''
 * @param isOpened whether the answer has begun, with prompts that have a text for it
 */
export function sketchInstruction(
  { sketch, sketchOpened }: PicePrompts,
  level: number,
  tokens: number,
  form: string,
  isOpened = false,
): string {
  const words = `${Math.max(1, Math.round(tokens / tokensPerWord))}`
  const instruction = fill(sketch, { level: `${level}`, words, form })
  return isOpened ? `${instruction}\n\n${sketchOpened}` : instruction
}

/** A line that is to be written out. */
export interface LineToExpand {
  readonly line: string
  /** Of all lines of the sketch, from 0. */
  readonly at: number
  readonly count: number
  /** Expected length of the text, in tokens. */
  readonly tokens: number
}

/** @param sketch the lines that the model sees: all, or as many as its context has room for */
export const expandInstruction = ({ expand }: PicePrompts, sketch: readonly string[], asked: LineToExpand): string =>
  fill(expand, { ...placeOf(asked), sketch: sketch.join('\n') })

export const expandNextInstruction = ({ expandNext }: PicePrompts, asked: LineToExpand): string =>
  fill(expandNext, placeOf(asked))

/** No point is asked for in fewer words. */
const minWords = 8

const placeOf = ({ line, at, count, tokens }: LineToExpand) => ({
  line,
  place: `${at + 1}`,
  count: `${count}`,
  words: `${Math.max(minWords, Math.round(tokens / tokensPerWord))}`,
})

/** The conversation with an instruction as the last paragraph of its last user message, or as a user message after an answer. */
export function withInstruction(messages: readonly ChatMessage[], instruction: string): ChatMessage[] {
  const last = messages.at(-1)
  if (last?.role !== 'user' || !last.content) return [...messages, { role: 'user', content: instruction }]
  return [...messages.slice(0, -1), { ...last, content: `${last.content}\n\n${instruction}` }]
}

/** In one pass: braces in a query's sketch are no placeholders. */
const fill = (text: string, values: Partial<Record<Placeholder, string>>): string =>
  text.replace(new RegExp(`\\{(${placeholders.join('|')})\\}`, 'g'), (all, name: Placeholder) => values[name] ?? all)
