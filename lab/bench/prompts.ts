import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import type { ChatMessage, ChatTemplate } from '../../core/text/chat-template.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'

/** One prompt of a file, encoded. */
export interface BenchPrompt {
  readonly id: string
  /** 'prompts' where the file names no tasks. */
  readonly task: string
  readonly ids: readonly number[]
  /** An answer that came with it. */
  readonly answerIds?: readonly number[]
}

const Message = z.looseObject({ role: z.string().min(1), content: z.string() })
/** It stands in tables, on the terminal and in the figure. */
const Label = z.string().regex(/^\P{Cc}+$/u, 'a line of text is expected')
const Line = z.object({
  id: z.union([Label, z.number()]).optional(),
  task: Label.optional(),
  prompt: z.string().min(1).optional(),
  messages: z.array(Message).min(1).optional(),
  answer: z.string().optional(),
})
type Line = z.infer<typeof Line>

export interface PromptText {
  readonly tokenizer: TextTokenizer
  readonly chatTemplate: ChatTemplate | undefined
  /** Refuses what cannot be answered. @throws BrimError */
  check(ids: readonly number[]): void
}

/**
 * Reads JSON lines with `prompt` (text; the chat template makes a user's message of it) or `messages`, and perhaps
 * `id` and `task`; blank lines are skipped.
 * @throws BrimError REQUEST_INVALID, or what `check` throws, naming file and line
 */
export async function readPrompts(file: string, text: PromptText): Promise<BenchPrompt[]> {
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw new BrimError('REQUEST_INVALID', `the prompt file ${file} cannot be read`, {
      cause,
      hint: 'give a file of JSON lines with --prompts',
    })
  })
  const prompts: BenchPrompt[] = []
  for (const [at, line] of linesOf(bytes).entries()) {
    const prompt = inLine(file, at + 1, () => {
      const parsed = parseLine(line)
      if (!parsed) return undefined
      const ids = encode(parsed, text)
      text.check(ids)
      const { answer } = parsed
      const answerIds = answer === undefined ? {} : { answerIds: text.tokenizer.encode(answer, { addSpecialTokens: false }) }
      return { id: String(parsed.id ?? `line ${at + 1}`), task: parsed.task ?? 'prompts', ids, ...answerIds }
    })
    if (prompt) prompts.push(prompt)
  }
  if (prompts.length > 0) return prompts
  throw new BrimError('REQUEST_INVALID', `the prompt file ${file} holds no prompt`, { hint: lineHint })
}

const lineHint = 'every line is like {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}], "task": "…"}'

/** Split before it is decoded, so that what is not UTF-8 has a line number. */
function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(10, from)
    const to = end < 0 ? bytes.length : end
    lines.push(bytes.subarray(from, to))
    from = to + 1
  }
  return lines
}

function parseLine(bytes: Buffer): Line | undefined {
  const line = decode(bytes).trim()
  if (line === '') return undefined
  const result = Line.safeParse(parseJson(line))
  if (!result.success) {
    const [issue] = result.error.issues
    throw invalid(`${issue?.path.join('.') || 'the line'}: ${issue?.message ?? 'not as expected'}`)
  }
  const { prompt, messages } = result.data
  if ((prompt === undefined) === (messages === undefined))
    throw invalid(prompt === undefined ? 'there is neither "prompt" nor "messages"' : 'there are both "prompt" and "messages"')
  return result.data
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid('it is not UTF-8 text')
  }
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch (error) {
    throw invalid(`it is not JSON (${error instanceof Error ? error.message : String(error)})`)
  }
}

function encode({ prompt, messages }: Line, { tokenizer, chatTemplate }: PromptText): number[] {
  if (chatTemplate) {
    const conversation: readonly ChatMessage[] = messages ?? [{ role: 'user', content: prompt ?? '' }]
    // The template writes the special tokens itself.
    return tokenizer.encode(chatTemplate.render(conversation), { addSpecialTokens: false })
  }
  if (prompt === undefined) throw invalid('it has "messages", but the bundle has no chat template')
  return tokenizer.encode(prompt)
}

const invalid = (message: string) => new BrimError('REQUEST_INVALID', message, { hint: lineHint })

function inLine<T>(file: string, line: number, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof BrimError)) throw error
    const hint = error.hint === undefined ? {} : { hint: error.hint }
    throw new BrimError(error.code, `${file}, line ${line}: ${error.message}`, { cause: error.cause, ...hint })
  }
}
