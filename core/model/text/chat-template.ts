import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { type ChatMessage, forTemplate } from './chat-message.ts'
import { parseTemplate, type Template } from './jinja/template.ts'
import { type ReasoningMarks, reasoningOf } from './reasoning-reader.ts'
import { readTokenizerConfig } from './tokenizer-config.ts'
import { describedTools, type ToolFormat, toolFormatOf } from './tool-format.ts'

export interface ChatTemplate {
  readonly file: string
  /** How the model writes calls of functions. */
  readonly tools: ToolFormat
  /** Undefined: its answers have no reasoning. */
  readonly reasoning: ReasoningMarks | undefined
  /**
   * Renders the prompt. It includes special tokens, so it must be encoded without adding more. With `addGenerationPrompt`
   * (default true) it ends where the assistant's answer begins.
   * @throws BrimError REQUEST_INVALID if the template refuses the conversation, e.g. because roles do not alternate
   */
  render(messages: readonly ChatMessage[], options?: { tools?: readonly object[]; addGenerationPrompt?: boolean }): string
}

/** Templates take some hundred steps for a message, 1 µs each. */
const maxStepsPerItem = 20_000

/**
 * Loads the checkpoint's template: chat_template.jinja, or `chat_template` in tokenizer_config.json. The latter may be a
 * list, from which 'tool_use' is used for requests with tools and 'default' for others.
 * @returns undefined if the checkpoint has no template
 * @throws BrimError CHAT_TEMPLATE_INVALID naming the file
 */
export async function loadChatTemplate(dir: string): Promise<ChatTemplate | undefined> {
  const config = await readTokenizerConfig(dir)
  const own = join(dir, 'chat_template.jinja')
  const ownSource = await readIfExists(own)
  const file = ownSource === undefined ? config.file : own
  const sources = ownSource === undefined ? config.chatTemplates : { default: ownSource }
  const templates = new Map(
    Object.entries(sources).map(([name, source]) => [
      name,
      { ...parse(source, name, file), readsToolCalls: source.includes('tool_calls'), showsTools: /\btools\b/.test(source) },
    ]),
  )
  if (templates.size === 0) return undefined
  const source = sources.tool_use ?? sources.default ?? ''
  const render: ChatTemplate['render'] = (messages, { tools, addGenerationPrompt = true } = {}) => {
    const template = (tools && templates.get('tool_use')) ?? templates.get('default')
    if (!template) {
      const names = [...templates.keys()].join(', ')
      throw new BrimError('CHAT_TEMPLATE_INVALID', `${file} has no template named 'default', only: ${names}`, {
        hint: "rename one of them to 'default'",
      })
    }
    try {
      const told = tools && !template.showsTools ? describedTools(messages, tools) : messages
      const variables = {
        messages: forTemplate(told, template.readsToolCalls),
        tools: tools ?? null,
        documents: null,
        add_generation_prompt: addGenerationPrompt,
      }
      const maxSteps = maxStepsPerItem * (1 + messages.length + (tools?.length ?? 0))
      return template.render({ ...config.specialTokens, ...variables }, { now: new Date(), maxSteps })
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new BrimError('REQUEST_INVALID', `the model's chat template refuses this conversation: ${why}`, {
        cause,
        hint: `send messages in the form that the template in ${file} expects, or a plain prompt`,
      })
    }
  }
  return { file, tools: toolFormatOf(source), reasoning: reasoningOf(source, endOfPrompt(render)), render }
}

/** Of a prompt as the template writes it; empty where it refuses the shortest conversation. */
function endOfPrompt(render: ChatTemplate['render']): string {
  try {
    return render([{ role: 'user', content: '?' }])
  } catch {
    return ''
  }
}

function parse(source: string, name: string, file: string): Template {
  try {
    return parseTemplate(source)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new BrimError('CHAT_TEMPLATE_INVALID', `${file}: the chat template '${name}' cannot be parsed: ${why}`, {
      cause,
      hint: 'compare it with the original checkpoint; only the Jinja of chat templates is supported',
    })
  }
}

async function readIfExists(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined
    throw new BrimError('CHAT_TEMPLATE_INVALID', `${file} cannot be read`, { cause, hint: 'check its permissions' })
  }
}
