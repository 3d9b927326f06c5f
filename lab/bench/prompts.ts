import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import { projectRoot } from '../../core/base/version.ts'
import type { ChatMessage, ChatTemplate } from '../../core/text/chat-template.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'

const heldOutName = 'test/fixtures/heldout-prompts.jsonl'
/** The prompts of the demonstration model that its training did not see. */
export const heldOutPrompts = { name: heldOutName, file: fileURLToPath(new URL(heldOutName, projectRoot)) }

/** One prompt of a file, encoded. */
export interface BenchPrompt {
  readonly id: string
  /** 'prompts' where the file names no tasks. */
  readonly task: string
  readonly ids: readonly number[]
  /** The answer that the file gives for it. */
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
type Line = z.infer<typeof Line>

export interface PromptText {
  readonly tokenizer: TextTokenizer
  readonly chatTemplate: ChatTemplate | undefined
  /** @throws BrimError for a prompt that cannot be answered */
  check(ids: readonly number[]): void
}

/**
 * Reads JSON lines with `prompt` (text, which the chat template turns into a user message) or `messages`, and optionally
 * `id` and `task`. Blank lines are skipped.
 * @throws BrimError REQUEST_INVALID, or the error of `check`, naming file and line
 */
export async function readPrompts(file: string, text: PromptText): Promise<BenchPrompt[]> {
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw new BrimError('REQUEST_INVALID', `the prompt file ${file} cannot be read`, {
      cause,
      hint: 'name a file of JSON lines with --prompts',
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
  throw new BrimError('REQUEST_INVALID', `the prompt file ${file} has no prompts`, { hint: lineHint })
}

const lineHint = 'a line looks like {"prompt": "…"} or {"messages": [{"role": "user", "content": "…"}], "task": "…"}'

/** Lines before decoding, so that an error in UTF-8 has a line number. */
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
    throw invalid(`${issue?.path.join('.') || 'the line'}: ${issue?.message ?? 'invalid'}`)
  }
  const { prompt, messages } = result.data
  if ((prompt === undefined) === (messages === undefined))
    throw invalid(prompt === undefined ? '"prompt" or "messages" is missing' : '"prompt" and "messages" exclude each other')
  return result.data
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid('not UTF-8 text')
  }
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch (error) {
    throw invalid(`not JSON (${error instanceof Error ? error.message : String(error)})`)
  }
}

function encode({ prompt, messages }: Line, { tokenizer, chatTemplate }: PromptText): number[] {
  if (chatTemplate) {
    const conversation: readonly ChatMessage[] = messages ?? [{ role: 'user', content: prompt ?? '' }]
    // The template adds the special tokens.
    return tokenizer.encode(chatTemplate.render(conversation), { addSpecialTokens: false })
  }
  if (prompt === undefined) throw invalid('"messages" needs a chat template, which the bundle does not have')
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
