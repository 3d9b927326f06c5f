import type { AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'

/** What a server would read of a request: its prompt or messages, with calls and their results, and its functions. */
export function textOfRequest({ prompt, tools }: Pick<AnswerRequest, 'prompt' | 'tools'>): string {
  const content = prompt.asText()
  return stringsIn([content.kind === 'text' ? content.text : content.messages, tools?.body]).join('\n')
}

/** Of messages and functions: no content. */
const formFields: ReadonlySet<string> = new Set(['role', 'type'])

/** Every text in a value of JSON, in its order. */
function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, part]) => (formFields.has(name) ? [] : stringsIn(part)))
}
