import type { z } from 'zod'
import '../../kit/base/plain-messages.ts'
import type { ErrorCode } from '../../kit/base/errors.ts'
import { jsonShapeProblem } from '../../kit/base/json-shape.ts'
import { maxMessageBytes } from './jobs.ts'
import { protocolVersion } from './version.ts'

/** A message, or why it is unreadable, for a reply to the sender. */
export type Reading<T> = { readonly kind: 'message'; readonly message: T } | Unreadable

export interface Unreadable {
  readonly kind: 'unreadable'
  readonly code: Extract<ErrorCode, 'MESSAGE_INVALID' | 'PROTOCOL_VERSION'>
  /** Field and problem; never the value. */
  readonly reason: string
  /** The parsed payload, if it is JSON. */
  readonly json?: unknown
}

/** Ours have a few hundred. More take long to check: each may be reported as wrong. */
const maxValues = 16_384
const maxReasonChars = 300
/** Problems reported per message. */
const maxIssues = 3

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads a JSON message; never throws. Unknown fields are dropped. A message of another version is rejected before its other
 * fields are read.
 */
export function readMessage<T>(schema: z.ZodType<T>, payload: Uint8Array): Reading<T> {
  if (payload.byteLength > maxMessageBytes) return invalid(`${payload.byteLength} bytes; the limit is ${maxMessageBytes}`)
  let text: string
  try {
    text = utf8.decode(payload)
  } catch {
    return invalid('not UTF-8')
  }
  const problem = jsonShapeProblem(text, maxValues)
  if (problem !== undefined) return invalid(problem)
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return invalid('not JSON')
  }
  return readJson(schema, json)
}

/** Reads a message that has been parsed already. */
export function readJson<T>(schema: z.ZodType<T>, json: unknown): Reading<T> {
  const version = typeof json === 'object' && json !== null && 'v' in json ? json.v : undefined
  if (version !== undefined && version !== protocolVersion)
    return {
      kind: 'unreadable',
      code: 'PROTOCOL_VERSION',
      reason: `unsupported version; this release supports version ${protocolVersion}`,
      json,
    }
  const read = schema.safeParse(json)
  return read.success ? { kind: 'message', message: read.data } : { ...invalid(reasonOf(read.error)), json }
}

const invalid = (reason: string): Unreadable => ({ kind: 'unreadable', code: 'MESSAGE_INVALID', reason })

/** Such as `"link.rttMs": Invalid input: expected number, received string`. @param within path of the enclosing object */
export function reasonOf({ issues }: z.ZodError, within: readonly PropertyKey[] = []): string {
  const described = issues.slice(0, maxIssues).map(({ path, message }) => {
    const names = [...within, ...path].map(nameOf)
    return `${names.length === 0 ? 'the message' : `"${names.join('.')}"`}: ${message}`
  })
  const more = issues.length > maxIssues ? [`and ${issues.length - maxIssues} more`] : []
  return [...described, ...more].join('; ').slice(0, maxReasonChars)
}

/** A field name or list index. Names in a record come from the sender and may be anything, so odd ones are masked. */
const nameOf = (part: PropertyKey): string => (/^\w{1,40}$/.test(String(part)) ? String(part) : '…')
