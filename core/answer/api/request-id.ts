import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** The client's own x-request-id, where it can be logged and sent back; else a new one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : `req_${randomUUID()}`
}
