import { z } from 'zod'
import { Scenario } from './scenario.ts'

/** The JSON schema of scenario files, with which editors complete and check them. */
export function scenarioSchema(): object {
  const { $defs, ...schema } = z.toJSONSchema(Scenario, { io: 'input' })
  const own = $defs?.Scenario as { properties: Record<string, object> }
  const sweep = {
    type: 'object',
    description: 'fields by their paths, as in cloud.gpu, each with a list of values: every combination is run',
    additionalProperties: { type: 'array', minItems: 1 },
  }
  return { ...schema, $defs: { ...$defs, Scenario: { ...own, properties: { ...own.properties, sweep } } } }
}
