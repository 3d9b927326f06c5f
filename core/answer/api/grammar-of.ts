import type { Grammar } from '../../model/grammar/grammar.ts'
import { FieldError } from '../../wire/openai/api-error.ts'
import type { StructuredOutputs, StructuredRequest } from '../../wire/openai/structured.ts'

/**
 * What the answer to a request is kept to; undefined: nothing.
 * @param formatField where the request has OpenAI's form of an answer
 * @throws FieldError REQUEST_INVALID where fields ask for different forms
 */
export function grammarOf(request: StructuredRequest, formatField = 'response_format'): Grammar | undefined {
  const { guided_json: json, guided_regex: regex, guided_choice: choice, guided_grammar: grammar } = request
  const asked = [
    ...formatsOf(formatField, request.response_format),
    ...outputsOf('structured_outputs', request.structured_outputs ?? {}),
    ...outputsOf('guided_json', { json }),
    ...outputsOf('guided_regex', { regex }),
    ...outputsOf('guided_choice', { choice }),
    ...outputsOf('guided_grammar', { grammar }),
  ]
  const [first, second] = asked
  if (second)
    throw new FieldError(
      'REQUEST_INVALID',
      second.field,
      `"${first!.field}" and "${second.field}" ask for two forms of the answer`,
    )
  return first?.grammar
}

interface AskedGrammar {
  readonly field: string
  readonly grammar: Grammar
}

function formatsOf(field: string, format: StructuredRequest['response_format']): AskedGrammar[] {
  if (!format || format.type === 'text') return []
  if (format.type === 'json_object') return [{ field, grammar: { kind: 'object' } }]
  const { schema, strict } = format.json_schema
  return [{ field, grammar: schema == null ? { kind: 'object' } : schemaGrammar(schema, strict ?? false) }]
}

function outputsOf(field: string, { json, json_object, regex, choice, grammar }: StructuredOutputs): AskedGrammar[] {
  const asked: Grammar[] = []
  if (json != null) asked.push(schemaGrammar(typeof json === 'string' ? parsed(field, json) : json, false))
  if (json_object) asked.push({ kind: 'object' })
  if (regex != null) asked.push({ kind: 'regex', pattern: regex })
  if (choice != null) asked.push({ kind: 'ebnf', text: `root ::= ${choice.map((text) => JSON.stringify(text)).join(' | ')}` })
  if (grammar != null) asked.push({ kind: 'ebnf', text: grammar })
  return asked.map((each) => ({ field, grammar: each }))
}

const schemaGrammar = (schema: unknown, strict: boolean): Grammar => ({ kind: 'schema', schema: JSON.stringify(schema), strict })

function parsed(field: string, json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    throw new FieldError('REQUEST_INVALID', field, `"${field}": the schema is not JSON`)
  }
}
