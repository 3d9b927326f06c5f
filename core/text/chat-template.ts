import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../base/errors.ts'
import { parseTemplate, type Template } from './jinja/template.ts'
import { readTokenizerConfig } from './tokenizer-config.ts'

export const chatTemplateFile = 'chat_template.jinja'

/** A message as in OpenAI's API; templates may read further fields (`tool_calls`, `name`). */
export interface ChatMessage {
  readonly role: string
  readonly content: string | null
  readonly [field: string]: unknown
}

export interface ChatTemplate {
  /** Where the template stands. */
  readonly file: string
  /**
   * The prompt's text, special tokens included: encode it without adding more. `addGenerationPrompt` (default true)
   * ends it where the assistant's answer begins.
   * @throws BrimError REQUEST_INVALID when the template refuses the conversation (e.g. roles that do not alternate)
   */
  render(messages: readonly ChatMessage[], options?: { tools?: readonly object[]; addGenerationPrompt?: boolean }): string
}

/**
 * The checkpoint's own template: chat_template.jinja, or `chat_template` in tokenizer_config.json (one, or a list from
 * which 'tool_use' serves requests with tools and 'default' the others). Undefined where it has none.
 * @throws BrimError CHAT_TEMPLATE_INVALID naming the file
 */
export async function loadChatTemplate(dir: string): Promise<ChatTemplate | undefined> {
  const config = await readTokenizerConfig(dir)
  const own = join(dir, chatTemplateFile)
  const alone = await readIfThere(own)
  const file = alone === undefined ? config.file : own
  const sources = alone === undefined ? config.chatTemplates : { default: alone }
  const templates = new Map(Object.entries(sources).map(([name, source]) => [name, parse(source, name, file)]))
  if (templates.size === 0) return undefined
  return {
    file,
    render(messages, { tools, addGenerationPrompt = true } = {}) {
      const template = (tools && templates.get('tool_use')) ?? templates.get('default')
      if (!template) {
        const names = [...templates.keys()].join(', ')
        throw new BrimError('CHAT_TEMPLATE_INVALID', `${file} has no template named 'default', only: ${names}`, {
          hint: "name one of them 'default'",
        })
      }
      try {
        const variables = { messages, tools: tools ?? null, documents: null, add_generation_prompt: addGenerationPrompt }
        return template.render({ ...config.specialTokens, ...variables }, new Date())
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause)
        throw new BrimError('REQUEST_INVALID', `the model's chat template refuses this conversation: ${why}`, {
          cause,
          hint: `the template is in ${file}; send messages as it expects them, or a plain prompt`,
        })
      }
    },
  }
}

function parse(source: string, name: string, file: string): Template {
  try {
    return parseTemplate(source)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new BrimError('CHAT_TEMPLATE_INVALID', `${file}: the chat template '${name}' cannot be read: ${why}`, {
      cause,
      hint: 'compare it with the checkpoint; only the Jinja that chat templates use is understood',
    })
  }
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined
    throw new BrimError('CHAT_TEMPLATE_INVALID', `${file} cannot be read`, { cause, hint: 'check its permissions' })
  }
}
