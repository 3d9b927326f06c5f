import type { FormGrammar, Grammar } from '../../model/grammar/grammar.ts'
import type { ToolFormat } from '../../model/text/tool-format.ts'

/** A function that an answer may call. */
export interface Tool {
  readonly name: string
  /** JSON schema of its arguments, as JSON. */
  readonly schema: string
  /** The arguments are kept to all of the schema. */
  readonly strict: boolean
}

export interface Tools {
  readonly tools: readonly Tool[]
  /** The answer is a call. */
  readonly mustCall: boolean
  /** It ends with the first call. */
  readonly onlyOne: boolean
  /** The fields of the request, for another server. */
  readonly body: object
}

/**
 * What keeps an answer to the form in which a model writes calls, and their arguments to their schemas.
 * @param otherwise what an answer without calls is kept to
 */
export const callGrammar = (
  { tools, mustCall, onlyOne }: Tools,
  { trigger, begin, end, ...format }: ToolFormat,
  otherwise: FormGrammar | undefined,
): Grammar => ({
  kind: 'calls',
  trigger,
  calls: tools.map(({ name, schema, strict }) => ({ begin: begin(name), schema, strict, arguments: format.arguments, end })),
  mustCall,
  onlyOne,
  ...(otherwise && { otherwise }),
})
