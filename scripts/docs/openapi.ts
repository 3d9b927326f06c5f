import { z } from 'zod'
import { ErrorBody } from '../../core/wire/openai/api-error.ts'
import { Model } from '../../core/wire/openai/responses.ts'
import { AuditLine, DeviceIdentity, KeyRecord, TokenRecord } from '../../core/wire/protocol/http/admin.ts'
import { LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import { ServedBundle } from '../../core/wire/protocol/http/bundles.ts'
import {
  CommandRecord,
  Device,
  FleetEvent,
  LatestTelemetry,
  LogLine,
  SharedDatabase,
  TelemetrySample,
} from '../../core/wire/protocol/http/devices.ts'
import { ErrorResponse } from '../../core/wire/protocol/http/error-response.ts'
import { JobDetails, JobSummary, StoredJobEvent, Submitted } from '../../core/wire/protocol/http/jobs.ts'
import type { Operation, RequiredAccess } from '../../core/wire/protocol/http/operation.ts'
import { allOperations } from '../../core/wire/protocol/http/operations.ts'
import { HatSession, ServedAnswer, ServedNow } from '../../core/wire/protocol/http/served-now.ts'
import { WhatIfFact } from '../../core/wire/protocol/http/what-if.ts'
import { JobSubmission } from '../../core/wire/protocol/jobs.ts'
import { isNullIfAbsent, type Schema, simplified, unmarked } from './asyncapi.ts'

/** Schemas that several operations share. */
const shared: Readonly<Record<string, z.ZodType>> = {
  AuditLine,
  CommandRecord,
  Device,
  DeviceIdentity,
  ErrorBody,
  ErrorResponse,
  FleetEvent,
  HatSession,
  JobDetails,
  JobSubmission,
  JobSummary,
  KeyRecord,
  LatestTelemetry,
  LogLine,
  LoggedStep,
  Model,
  ServedAnswer,
  ServedBundle,
  ServedNow,
  SharedDatabase,
  StoredJobEvent,
  Submitted,
  TelemetrySample,
  TokenRecord,
  WhatIfFact,
}

const accessNotes: Readonly<Record<RequiredAccess, string>> = {
  open: 'No authentication.',
  ask: 'Role: client, operator or admin; enrolled devices too, unless the bridge refuses them.',
  read: 'Role: viewer or above.',
  fetch: 'Role: viewer or above; enrolled devices too.',
  operate: 'Role: operator or above.',
  administer: 'Role: admin.',
  'own-key': 'Any API key.',
  'hook-secret': 'The secret of --broker-hook-secret-file, as bearer token or as `secret` in the query.',
}

const operations = Object.entries(allOperations).flatMap(([tag, group]) =>
  Object.entries(group).map(([name, operation]) => ({ tag, id: `${tag}.${name}`, operation })),
)

type Schemas = ReturnType<typeof jsonSchemas>

/** OpenAPI 3.1 of a bridge's HTTP API. https://spec.openapis.org/oas/v3.1.0 */
export function openApiDocument() {
  const schemas = jsonSchemas()
  const paths: Record<string, Record<string, object>> = {}
  for (const { tag, id, operation } of operations) {
    const path = templateOf(operation.path)
    paths[path] = { ...paths[path], [operation.method.toLowerCase()]: describe(tag, id, operation, schemas) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Brim bridge',
      version: '1',
      description: 'HTTP API of a Brim bridge. Fields are only ever added; clients ignore fields that they do not know.',
      license: { name: 'Apache-2.0' },
    },
    servers: [{ url: 'http://localhost:7070' }],
    tags: Object.keys(allOperations).map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      schemas: Object.fromEntries(Object.entries(shared).map(([name, schema]) => [name, schemas.definition(schema)])),
    },
  }
}

/** JSON Schemas of all operations, which refer to the shared ones. */
function jsonSchemas() {
  const registry = z.registry<{ id: string }>()
  for (const [name, schema] of Object.entries(shared)) registry.add(schema, { id: name })
  for (const { id, operation } of operations)
    for (const part of ['query', 'body', 'response', 'event'] as const) {
      const schema = operation[part]
      if (schema && !registry.has(schema)) registry.add(schema, { id: `${id}.${part}` })
    }
  const refTo = (id: string) => `#/components/schemas/${id}`
  const all = unmarked(
    z.toJSONSchema(registry, { io: 'input', unrepresentable: 'any', override: ofResponses, uri: refTo }).schemas,
  )
  const definition = (schema: z.ZodType): Schema => {
    const { $schema: _, $id: __, ...rest } = all[registry.get(schema)!.id]!
    return rest
  }
  return {
    definition,
    reference(schema: z.ZodType): Schema {
      const { id } = registry.get(schema)!
      return id in shared ? { $ref: refTo(id) } : definition(schema)
    },
  }
}

/** A figure that messages of devices may leave out is null in a response. */
function ofResponses({ jsonSchema }: { jsonSchema: Schema }): void {
  const { properties = {}, required = [] } = jsonSchema
  const names = Object.keys(properties).filter((name) => required.includes(name) || isNullIfAbsent(properties[name]))
  if (names.length > 0) jsonSchema.required = names
  simplified({ jsonSchema })
}

const templateOf = (path: string) => path.replace(/:(\w+)/g, '{$1}').replace('*', '{path}')

function describe(tag: string, id: string, operation: Operation, { reference }: Schemas): object {
  const {
    access,
    path,
    summary,
    query,
    body,
    status = 200,
    response,
    event,
    contentType = 'application/octet-stream',
    errors,
  } = operation
  const content = {
    ...(response && { 'application/json': { schema: reference(response) } }),
    ...(event && { 'text/event-stream': { schema: reference(event) } }),
    ...(!response && !event && { [contentType]: {} }),
  }
  const pathParameters = [...templateOf(path).matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const parameters = [...pathParameters, ...(query ? queryParameters(reference(query)) : [])]
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: accessNotes[access],
    security: access === 'open' ? [] : [{ bearer: [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: reference(body) } } } }),
    responses: {
      [status]: { description: event ? 'Success. In a stream, each event carries one such JSON document.' : 'Success', content },
      default: {
        description: 'Failure',
        content: { 'application/json': { schema: reference(errors === 'openai' ? ErrorBody : ErrorResponse) } },
      },
    },
  }
}

function queryParameters({ properties = {}, required = [] }: Schema): object[] {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }))
}
