import { FieldError } from '../../wire/openai/api-error.ts'
import type { ToolRequest } from '../../wire/openai/tools.ts'
import type { Tools } from '../endpoint/tools.ts'

/**
 * The functions that the answer to a request may call; undefined: none.
 * @throws FieldError REQUEST_INVALID for a choice of a function that is not there, or of one of two with the same name
 */
export function toolsOf({ tools, tool_choice: choice, parallel_tool_calls: parallel }: ToolRequest): Tools | undefined {
  const given = tools ?? []
  const names = given.map((tool) => tool.function.name)
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) throw invalid('tools', `two functions have the name "${twice}"`)
  const chosen = typeof choice === 'object' ? choice?.function.name : undefined
  if (chosen !== undefined && !names.includes(chosen)) throw invalid('tool_choice', `"tools" has no function "${chosen}"`)
  if (given.length === 0 && choice === 'required') throw invalid('tool_choice', '"required" needs "tools"')
  if (given.length === 0 || choice === 'none') return undefined
  return {
    tools: given
      .filter((tool) => chosen === undefined || tool.function.name === chosen)
      .map(({ function: { name, parameters, strict } }) => ({
        name,
        schema: JSON.stringify(parameters ?? { type: 'object', properties: {} }),
        strict: strict ?? false,
      })),
    mustCall: choice === 'required' || chosen !== undefined,
    onlyOne: parallel === false || chosen !== undefined,
    body: {
      tools: given,
      ...(choice != null && { tool_choice: choice }),
      ...(parallel != null && { parallel_tool_calls: parallel }),
    },
  }
}

const invalid = (field: string, what: string) => new FieldError('REQUEST_INVALID', field, `"${field}": ${what}`)
