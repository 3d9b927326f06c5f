import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import type { ChatMessage } from './chat-message.ts'
import type { ChatTemplate } from './chat-template.ts'
import type { TextTokenizer } from './tokenizer.ts'

/** One prompt of a file, encoded. */
export interface FilePrompt {
  readonly id: string
  /** 'prompts' where the file names no tasks. */
  readonly task: string
  readonly ids: readonly number[]
  /** The conversation; absent for a model without a chat template. */
  readonly messages?: readonly ChatMessage[]
  readonly answerIds?: readonly number[]
}

const Message = z.looseObject({ role: z.string().min(1), content: z.string() })
/** Shown in tables, on the terminal and in the figure. */
const Label = z.string().regex(/^\P{Cc}+$/u, 'must be one line of text')
const Line = z.object({
  id: z.union([Label, z.number()]).optional(),
  task: Label.optional(),
  prompt: z.string().min(1).optional(),
  messages: z.array(Message).min(1).optional(),
  answer: z.string().optional(),
})

interface PromptText {
  readonly tokenizer: TextTokenizer
  readonly chatTemplate: ChatTemplate | undefined
  /** @throws BrimError for a prompt that cannot be answered */
  check(ids: readonly number[]): void
}

/**
 * Reads JSON lines with `prompt` (text, which the chat template turns into a user message) or `messages`, and optionally
 * `id`, `task` and `answer`. Blank lines are skipped.
 * @throws BrimError REQUEST_INVALID, or the error of `check`, naming file and line
 */
export async function readPrompts(file: string, text: PromptText): Promise<FilePrompt[]> {
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw new BrimError('REQUEST_INVALID', `the prompt file ${file} cannot be read`, {
      cause,
      hint: 'name a file of JSON lines with --prompts',
    })
  })
  // Split before decoding, so that an error in UTF-8 has a line number.
  const lines = bytes.toString('latin1').split('\n')
  const prompts = lines.flatMap((line, at) => {
    try {
      return readLine(Buffer.from(line, 'latin1'), at + 1, text)
    } catch (error) {
      if (!(error instanceof BrimError)) throw error
      throw new BrimError(error.code, `${file}, line ${at + 1}: ${error.message}`, {
        cause: error.cause,
        ...(error.hint !== undefined && { hint: error.hint }),
      })
    }
  })
  if (prompts.length > 0) return prompts
  throw new BrimError('REQUEST_INVALID', `the prompt file ${file} has no prompts`, { hint: lineHint })
}

const lineHint = 'a line looks like {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}], "task": "…"}'
const invalid = (message: string) => new BrimError('REQUEST_INVALID', message, { hint: lineHint })

function readLine(bytes: Buffer, number: number, { tokenizer, chatTemplate, check }: PromptText): FilePrompt[] {
  const line = attempt('not UTF-8 text', () => new TextDecoder('utf-8', { fatal: true }).decode(bytes)).trim()
  if (line === '') return []
  const result = Line.safeParse(attempt('not JSON', () => JSON.parse(line)))
  if (!result.success) {
    const [issue] = result.error.issues
    throw invalid(`${issue?.path.join('.') || 'the line'}: ${issue?.message ?? 'invalid'}`)
  }
  const { id = `line ${number}`, task = 'prompts', prompt, messages, answer } = result.data
  if (prompt === undefined && !messages) throw invalid('"prompt" or "messages" is missing')
  if (prompt !== undefined && messages) throw invalid('"prompt" and "messages" exclude each other')
  if (messages && !chatTemplate) throw invalid('"messages" needs a chat template, which the bundle does not have')
  const asked = messages ?? [{ role: 'user', content: prompt ?? '' }]
  // A template adds the special tokens.
  const ids = chatTemplate
    ? tokenizer.encode(chatTemplate.render(asked), { addSpecialTokens: false })
    : tokenizer.encode(prompt ?? '')
  check(ids)
  const answerIds = answer === undefined ? {} : { answerIds: tokenizer.encode(answer, { addSpecialTokens: false }) }
  return [{ id: String(id), task, ids, ...(chatTemplate && { messages: asked }), ...answerIds }]
}

function attempt<T>(problem: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw invalid(`${problem} (${error instanceof Error ? error.message : String(error)})`)
  }
}
