import { z } from 'zod'
import type { ErrorCode } from '../base/errors.ts'
import { maxMessageBytes } from './jobs.ts'
import { protocolVersion } from './version.ts'

/** A message, or why it is none: told to whoever sent it. */
export type Reading<T> = { readonly kind: 'message'; readonly message: T } | Unreadable

export interface Unreadable {
  readonly kind: 'unreadable'
  readonly code: Extract<ErrorCode, 'MESSAGE_INVALID' | 'PROTOCOL_VERSION'>
  /** Where, and what is wrong there; never what stood there. */
  readonly reason: string
  /** What it says nevertheless, where it is JSON. */
  readonly json?: unknown
}

/** What is nested deeper cannot be written again by JSON.stringify for certain, and nobody has a use for it. */
const maxDepth = 64
const maxReasonChars = 300
/** Of what is wrong with one message so much is told. */
const maxIssues = 3

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads JSON from the other side; never throws. Fields that this release does not know are dropped, another version is
 * refused before anything else is looked at.
 */
export function readMessage<T>(schema: z.ZodType<T>, payload: Uint8Array): Reading<T> {
  if (payload.byteLength > maxMessageBytes) return invalid(`it has ${payload.byteLength} bytes; the limit is ${maxMessageBytes}`)
  let text: string
  try {
    text = utf8.decode(payload)
  } catch {
    return invalid('it is no UTF-8')
  }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return invalid('it is no JSON')
  }
  return depthOf(text) > maxDepth ? invalid(`it is nested deeper than ${maxDepth} levels`) : readJson(schema, json)
}

/** The same for what has been parsed already. */
export function readJson<T>(schema: z.ZodType<T>, json: unknown): Reading<T> {
  const version = Version.safeParse(json).data?.v
  if (version !== undefined && version !== protocolVersion)
    return {
      kind: 'unreadable',
      code: 'PROTOCOL_VERSION',
      reason: `its version is not spoken here, only version ${protocolVersion}`,
      json,
    }
  const read = schema.safeParse(json)
  return read.success ? { kind: 'message', message: read.data } : { ...invalid(reasonOf(read.error)), json }
}

const invalid = (reason: string): Unreadable => ({ kind: 'unreadable', code: 'MESSAGE_INVALID', reason })
const Version = z.object({ v: z.unknown() })

/** `"link.rttMs": Invalid input: expected number, received string`. @param within names what it is a part of */
export function reasonOf({ issues }: z.ZodError, within: readonly PropertyKey[] = []): string {
  const told = issues.slice(0, maxIssues).map(({ path, message }) => {
    const names = [...within, ...path].map(nameOf)
    return `${names.length === 0 ? 'the message' : `"${names.join('.')}"`}: ${message}`
  })
  const more = issues.length > maxIssues ? [`and ${issues.length - maxIssues} more`] : []
  return [...told, ...more].join('; ').slice(0, maxReasonChars)
}

/** A field's name or a place in a list; the names in a record are the sender's, and may be anything. */
const nameOf = (part: PropertyKey): string => (/^\w{1,40}$/.test(String(part)) ? String(part) : '…')

/** Levels of brackets outside strings, of what JSON.parse has taken. */
function depthOf(text: string): number {
  let [depth, deepest, inString] = [0, 0, false]
  for (let at = 0; at < text.length; at++) {
    const mark = text[at]
    if (inString) {
      if (mark === '\\') at += 1
      else if (mark === '"') inString = false
    } else if (mark === '"') inString = true
    else if (mark === '[' || mark === '{') deepest = Math.max(deepest, ++depth)
    else if (mark === ']' || mark === '}') depth -= 1
  }
  return deepest
}
