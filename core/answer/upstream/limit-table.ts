import { z } from 'zod'
import type { UpstreamLimits } from './endpoint.ts'

/** A server that answers, as the descriptions of its limits call it. */
interface LimitedServer {
  readonly server: string
  /** What follows where a limit is exceeded. */
  readonly failure: string
  /** What happens to requests beyond `Requests`. */
  readonly waiting: string
}

const size = (min: number) => z.int().min(min)
const seconds = z.number().positive()

/** Each limit of a server with OpenAI's API, by the end of its name: `TotalS` is the bridge's `upstreamTotalS`. */
const upstreamTable = {
  AnswerBytes: [size(1), (server, failure) => `text of one answer of ${server}, in bytes; beyond it ${failure}`],
  FirstTokenS: [seconds, (server, failure) => `seconds from the connection to ${server} until its first token; then ${failure}`],
  IdleS: [seconds, (server, failure) => `seconds between two tokens of ${server}, while the client reads; then ${failure}`],
  Requests: [size(1), (server, _, waiting) => `requests that ${server} answers at once; ${waiting}`],
  Retries: [
    size(0),
    (server) => `attempts that follow a request to ${server} that failed before its first token, where a retry can succeed`,
  ],
  TotalS: [seconds, (server, failure) => `seconds for one answer of ${server}, with waits and retries; then ${failure}`],
} as const satisfies Record<string, readonly [z.ZodNumber, (server: string, failure: string, waiting: string) => string]>

type Ending = keyof typeof upstreamTable
type Endings = { readonly [Name in Ending]: number }
type LimitsNamed<Prefix extends string> = { readonly [Name in Ending as `${Prefix}${Name}`]: number }

/** The limits of one server as fields of a table of limits, each name with this prefix. */
export function upstreamLimitFields<Prefix extends string>(
  prefix: Prefix,
  defaults: Endings,
  { server, failure, waiting }: LimitedServer,
) {
  const fields = Object.entries(upstreamTable).map(([name, [bounds, describe]]) => [
    `${prefix}${name}`,
    bounds.default(defaults[name as Ending]).describe(describe(server, failure, waiting)),
  ])
  return Object.fromEntries(fields) as { [Name in keyof LimitsNamed<Prefix>]: z.ZodDefault<z.ZodNumber> }
}

/** Requests that wait, where no limit says so. */
const maxQueue = 1_024
const connectMs = 5_000
const eventChars = 2 ** 20

/** The values of these fields. By default a server may ask for as long a wait as an answer may take. */
export function upstreamLimitsOf<Prefix extends string>(
  prefix: Prefix,
  limits: LimitsNamed<Prefix>,
  { queue = maxQueue, maxRetryAfterMs }: Partial<Pick<UpstreamLimits, 'queue' | 'maxRetryAfterMs'>> = {},
): UpstreamLimits {
  const values: Readonly<Record<string, number>> = limits
  const limit = (name: Ending) => values[`${prefix}${name}`]!
  const msOf = (name: Ending) => 1_000 * limit(name)
  return {
    requests: limit('Requests'),
    queue,
    retries: limit('Retries'),
    maxRetryAfterMs: maxRetryAfterMs ?? msOf('TotalS'),
    connectMs,
    firstTokenMs: msOf('FirstTokenS'),
    idleMs: msOf('IdleS'),
    totalMs: msOf('TotalS'),
    eventChars,
    answerBytes: limit('AnswerBytes'),
  }
}
