import type { IncomingMessage } from 'node:http'

/** Who is asked for a proof of who they are; where there is no gate, everybody is who they say. */
export interface Gate {
  /** Whether anybody is asked now: a gate that stands open does so until the first device has enrolled. */
  readonly asks: boolean
  /** The MQTT client id (`device-…`, `bridge-…`), or `viewer-…`, that a bearer token stands for now, or undefined. */
  subjectOf(token: string): string | undefined
}

/** The token of an `Authorization: Bearer …` header. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  /^Bearer ([\w.-]+)$/.exec(authorization ?? '')?.[1]

/** Where a request comes from: IPv4 as such, where the socket takes both. */
export const addressOf = ({ socket }: IncomingMessage): string => (socket.remoteAddress ?? '').replace(/^::ffff:(?=[\d.]+$)/, '')
