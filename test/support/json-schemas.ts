import { fastify } from 'fastify'
import type { Schema } from '../../scripts/docs/asyncapi.ts'

/** The violations of a schema by a value, one line each. */
export type Check = (value: unknown) => string[]

/** Compiles JSON Schemas (draft 7) with fastify's validator, which is independent of the library that wrote them. */
export async function schemaCompiler(): Promise<(schema: Schema) => Check> {
  const customOptions = {
    removeAdditional: false,
    coerceTypes: false,
    useDefaults: false,
    allErrors: true,
    // Of JSON Schema 2020-12, in which OpenAPI 3.1 is written: draft 7 does not check the items of a tuple.
    keywords: ['prefixItems'],
  }
  const app = fastify({ ajv: { customOptions } })
  // Fastify creates its validator for the first route with a schema.
  app.post('/', { schema: { body: {} } }, () => {})
  await app.ready()
  const compile = app.validatorCompiler
  if (!compile) throw new Error('fastify has no validator')
  return (schema) => {
    const validate = compile({ schema, method: 'POST', url: '/', httpPart: 'body' })
    return (value) => {
      if (validate(value) === true) return []
      const errors = (validate as { errors?: { instancePath: string; message?: string; params: object }[] | null }).errors ?? []
      return errors.map(({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`)
    }
  }
}

/** The same schema without additional fields. */
export function strictly(schema: Schema): Schema {
  const under = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(under)
    if (typeof value !== 'object' || value === null) return value
    const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, under(inner)]))
    return 'properties' in copy && !('additionalProperties' in copy) ? { ...copy, additionalProperties: false } : copy
  }
  return under(schema) as Schema
}
