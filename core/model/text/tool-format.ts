import type { ChatMessage } from './chat-message.ts'

/** How a model writes calls of functions. */
export interface ToolFormat {
  /** With which every call begins. */
  readonly trigger: string
  /** What comes before the arguments. */
  begin(name: string): string
  /** `xml`: `<parameter=name>value</parameter>` for each. */
  readonly arguments: 'json' | 'xml'
  /** What comes after them. */
  readonly end: string
}

/** Qwen 2.5 and 3, Hermes and many others. Also for models whose template has no tools: they are told. */
export const hermes: ToolFormat = {
  trigger: '<tool_call>',
  begin: (name) => `<tool_call>\n{"name": "${name}", "arguments": `,
  arguments: 'json',
  end: '}\n</tool_call>',
}

const qwenXml: ToolFormat = {
  trigger: '<tool_call>',
  begin: (name) => `<tool_call>\n<function=${name}>\n`,
  arguments: 'xml',
  end: '\n</function>\n</tool_call>',
}

const llama3: ToolFormat = {
  trigger: '{"name": "',
  begin: (name) => `{"name": "${name}", "parameters": `,
  arguments: 'json',
  end: '}',
}

const mistral: ToolFormat = {
  trigger: '[TOOL_CALLS]',
  begin: (name) => `[TOOL_CALLS][{"name": "${name}", "arguments": `,
  arguments: 'json',
  end: '}]',
}

/** Of Mistral's tokenizers since version 11. */
const mistralArgs: ToolFormat = {
  trigger: '[TOOL_CALLS]',
  begin: (name) => `[TOOL_CALLS]${name}[ARGS]`,
  arguments: 'json',
  end: '',
}

/** By what a chat template says of calls: the first that fits. */
const formats: readonly (readonly [sign: RegExp, format: ToolFormat])[] = [
  [/<function=/, qwenXml],
  [/<tool_call>/, hermes],
  [/\[ARGS\]/, mistralArgs],
  [/\[TOOL_CALLS\]/, mistral],
  [/"parameters": ?(?:dictionary|\{)|<\|python_tag\|>/, llama3],
]

/** @param template its source */
export const toolFormatOf = (template: string): ToolFormat => formats.find(([sign]) => sign.test(template))?.[1] ?? hermes

/** Markers that formats are made of, and of reasoning: part of the text, although some tokenizers call them special. */
export const visibleTokens: ReadonlySet<string> = new Set([
  ...['<tool_call>', '</tool_call>', '[TOOL_CALLS]', '[ARGS]', '<think>', '</think>', '[THINK]', '[/THINK]'],
])

/** For a template that does not show tools to the model: a system message does, in the form of `hermes`. */
export function describedTools(messages: readonly ChatMessage[], tools: readonly object[]): readonly ChatMessage[] {
  const text = `You can call these functions:\n${tools.map((tool) => JSON.stringify(tool)).join('\n')}\nTo call one, write <tool_call>\n{"name": its name, "arguments": an object}\n</tool_call>`
  const [first, ...rest] = messages
  if (first?.role !== 'system') return [{ role: 'system', content: text }, ...messages]
  return [{ ...first, content: [first.content ?? '', text].filter((each) => each !== '').join('\n\n') }, ...rest]
}
