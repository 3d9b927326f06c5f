import { readFile } from 'node:fs/promises'
import { BrimError } from '../../kit/base/errors.ts'
import type { ChatTemplate } from './chat-template.ts'
import { readPrompts } from './prompt-file.ts'
import type { TextTokenizer } from './tokenizer.ts'

/**
 * Reads the texts of a file as token ids: of a `.jsonl` file prompts, each with its answer; of any other each line is a text.
 * Blank lines are skipped.
 * @throws BrimError REQUEST_INVALID naming the file and, where there is one, the line
 */
export async function readTexts(
  file: string,
  text: { readonly tokenizer: TextTokenizer; readonly chatTemplate: ChatTemplate | undefined },
): Promise<(readonly number[])[]> {
  if (file.endsWith('.jsonl'))
    return (await readPrompts(file, { ...text, check() {} })).map(({ ids, answerIds = [] }) => [...ids, ...answerIds])
  const bytes = await readFile(file).catch((cause: unknown) => {
    throw new BrimError('REQUEST_INVALID', `the prompt file ${file} cannot be read`, {
      cause,
      hint: 'name a file with a text in each line, or a .jsonl file of prompts',
    })
  })
  const lines = decode(bytes, file).split('\n')
  return lines.filter((line) => line.trim() !== '').map((line) => text.tokenizer.encode(line.replace(/\r$/, '')))
}

function decode(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new BrimError('REQUEST_INVALID', `the prompt file ${file} is not UTF-8 text`, { cause, hint: 'convert it to UTF-8' })
  }
}
