import { z } from 'zod'
import { listOf } from '../../kit/base/list-of.ts'
import type { Grammar } from '../../model/grammar/grammar.ts'

/** A JSON schema, which is checked where it is compiled. */
export const JsonSchema = z.union([z.record(z.string(), z.unknown()), z.boolean()])
const maxChoices = 1_024
const JsonText = z.string().refine(isJson, 'must be JSON')

export const AnswerFormat = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text') }),
  z.object({ type: z.literal('json_object') }),
  z.object({
    type: z.literal('json_schema'),
    json_schema: z.object({
      name: z.string().max(256).nullish(),
      description: z.string().nullish(),
      schema: JsonSchema.nullish(),
      strict: z.boolean().nullish(),
    }),
  }),
])

const Choices = listOf(z.string().min(1), { min: 1, max: maxChoices })

/** Extension, as in vLLM: what the answer is kept to. */
export const StructuredOutputs = z.strictObject({
  json: z.union([JsonSchema, z.string()]).nullish(),
  json_object: z.boolean().nullish(),
  regex: z.string().min(1).nullish(),
  choice: Choices.nullish(),
  grammar: z.string().min(1).nullish(),
})
export type StructuredOutputs = z.infer<typeof StructuredOutputs>

const forms = [
  z.object({ kind: z.literal('object') }),
  z.object({ kind: z.literal('schema'), schema: JsonText, strict: z.boolean() }),
  z.object({ kind: z.literal('regex'), pattern: z.string() }),
  z.object({ kind: z.literal('ebnf'), text: z.string() }),
] as const

/** A grammar as it is, of any kind. */
export const GrammarField: z.ZodType<Grammar> = z.discriminatedUnion('kind', [
  ...forms,
  z.object({
    kind: z.literal('calls'),
    trigger: z.string().min(1),
    calls: listOf(
      z.object({
        begin: z.string().min(1),
        schema: JsonText,
        strict: z.boolean(),
        arguments: z.enum(['json', 'xml']),
        end: z.string(),
      }),
      { min: 1, max: maxChoices },
    ),
    mustCall: z.boolean(),
    onlyOne: z.boolean(),
    otherwise: z.discriminatedUnion('kind', forms).optional(),
  }),
])

/** Fields of a request that keep its answer to a form: OpenAI's, and vLLM's with their older names. */
export const structuredFields = {
  response_format: AnswerFormat.nullish(),
  structured_outputs: StructuredOutputs.nullish(),
  guided_json: StructuredOutputs.shape.json,
  guided_regex: StructuredOutputs.shape.regex,
  guided_choice: StructuredOutputs.shape.choice,
  guided_grammar: StructuredOutputs.shape.grammar,
}
export type StructuredRequest = z.infer<z.ZodObject<typeof structuredFields>>

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The fields that ask another server for this form, in OpenAI's words where it has some. */
export function structuredBody(grammar: Grammar | undefined): z.input<z.ZodObject<typeof structuredFields>> {
  switch (grammar?.kind) {
    case undefined:
      return {}
    case 'object':
      return { response_format: { type: 'json_object' } }
    case 'schema': {
      const { schema, strict } = grammar
      return { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: JSON.parse(schema), strict } } }
    }
    case 'regex':
      return { structured_outputs: { regex: grammar.pattern } }
    case 'ebnf':
      return { structured_outputs: { grammar: grammar.text } }
    case 'calls':
      return {}
    default:
      return grammar satisfies never
  }
}
