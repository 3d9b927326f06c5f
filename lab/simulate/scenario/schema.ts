import { z } from 'zod'
import { Scenario } from './scenario.ts'

/** The JSON schema of scenario files, with which editors complete and check them. */
export function scenarioSchema(): object {
  // Draft 7, which editors know best.
  const { definitions, ...schema } = z.toJSONSchema(Scenario, { io: 'input', target: 'draft-7' })
  const { Scenario: own, ...others } = definitions as { readonly Scenario: { readonly properties: Record<string, object> } }
  const sweep = {
    type: 'object',
    description: 'fields by their paths, as in cloud.gpu, each with a list of values: every combination is run',
    additionalProperties: { type: 'array', minItems: 1 },
  }
  return { ...schema, definitions: { ...others, Scenario: { ...own, properties: { ...own.properties, sweep } } } }
}
