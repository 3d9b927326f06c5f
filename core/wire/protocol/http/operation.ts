import type { z } from 'zod'

/**
 * What the caller must be allowed to do. `open`: no proof is required; `own-key`: any key; `ask`: answers of the bridge's models;
 * `hook-secret`: the secret that the broker and the bridge share.
 */
export type RequiredAccess = 'open' | 'ask' | 'read' | 'fetch' | 'operate' | 'administer' | 'own-key' | 'hook-secret'

/** One operation of the bridge's HTTP API, in OpenAPI's sense of the word. The bridge serves it, the CLI calls it. */
export interface Operation {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Parameters as `:name`; a trailing `*` is the rest of the path. */
  readonly path: string
  readonly access: RequiredAccess
  readonly summary: string
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  /** Default: 16 KiB. */
  readonly maxBodyBytes?: number
  /** Of the response; default: 200. */
  readonly status?: 200 | 202
  /** JSON of the response; absent: bytes or events alone. */
  readonly response?: z.ZodType
  /** Content type of the bytes; default: application/octet-stream. */
  readonly contentType?: string
  /** One server-sent event, where the operation has a stream (for callers that accept `text/event-stream`). */
  readonly event?: z.ZodType
  /** Form of its errors; default: ErrorResponse. */
  readonly errors?: 'openai'
}
export type Operations = Readonly<Record<string, Operation>>

const operation =
  <const Method extends Operation['method']>(method: Method) =>
  <const Path extends string, const Schemas extends Omit<Operation, 'method' | 'path' | 'access' | 'summary'>>(
    path: Path,
    access: RequiredAccess,
    summary: string,
    schemas: Schemas,
  ) => ({ method, path, access, summary, ...schemas })
export const get = operation('GET')
export const post = operation('POST')
export const del = operation('DELETE')

type ParamNames<Path extends string> = Path extends `${infer Head}/${infer Tail}`
  ? ParamNames<Head> | ParamNames<Tail>
  : Path extends `:${infer Name}`
    ? Name
    : Path extends '*'
      ? '*'
      : never

export type ParamsOf<O extends Operation> = Readonly<Record<ParamNames<O['path']>, string>>
export type QueryOf<O extends Operation> = O extends { query: z.ZodType<infer Query> } ? Query : undefined
export type BodyOf<O extends Operation> = O extends { body: z.ZodType<infer Body> } ? Body : undefined
export type ResponseOf<O extends Operation> = O extends { response: z.ZodType<infer Response> } ? Response : undefined
export type EventOf<O extends Operation> = O extends { event: z.ZodType<infer Event> } ? Event : undefined

/** Query parameters that are undefined are left out. */
export type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>

/** Path and query of a request, with every value percent-encoded. */
export function urlOf<O extends Operation>({ path }: O, params: ParamsOf<O>, query: QueryValues = {}): string {
  const values: Readonly<Record<string, string>> = params
  const filled = path.replace(/:(\w+)|\*/g, (token, name: string | undefined) => {
    const value = values[name ?? token] ?? ''
    return name === undefined ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value)
  })
  const given = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  )
  return given.length === 0 ? filled : `${filled}?${new URLSearchParams(given)}`
}
