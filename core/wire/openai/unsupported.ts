import { FieldError } from './api-error.ts'

export interface Unsupported {
  /** Values under which the field changes nothing. */
  readonly neutral: readonly unknown[]
  readonly hint: string
}

const tools = 'use tools and tool_choice'
const textOnly = 'answers are text'

/** Fields of OpenAI's API that would change the answer, and that Brim does not support. */
export const unsupportedFields: Readonly<Record<string, Unsupported>> = {
  functions: { neutral: [[]], hint: tools },
  function_call: { neutral: ['none', 'auto'], hint: tools },
  modalities: { neutral: [['text']], hint: textOnly },
  audio: { neutral: [], hint: textOnly },
  web_search_options: { neutral: [], hint: 'put what the model needs to know into a message' },
  logit_bias: {
    neutral: [{}],
    hint: 'supported are temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, seed and stop',
  },
  best_of: { neutral: [1], hint: 'ask for several answers with n, and choose one' },
  echo: { neutral: [false], hint: 'put the prompt before the answer in the client' },
  suffix: { neutral: [''], hint: 'the model continues a text; it fills no gaps' },
}

/** @throws FieldError REQUEST_INVALID naming the first field that is not supported, and the values that are */
export function refuseUnsupported(
  body: Readonly<Record<string, unknown>>,
  unsupported: Readonly<Record<string, Unsupported>>,
): void {
  for (const [field, { neutral, hint }] of Object.entries(unsupported)) {
    const value = Object.hasOwn(body, field) ? body[field] : undefined
    const allowed = neutral.map((each) => JSON.stringify(each))
    if (value == null || allowed.includes(JSON.stringify(value))) continue
    const exception = allowed.length === 0 ? '' : `, except ${allowed.join(' or ')}`
    throw new FieldError('REQUEST_INVALID', field, `"${field}" is not supported${exception}`, hint)
  }
}
