import { z } from 'zod'
import { understood } from '../link/json.ts'
import type { History } from './history.ts'

const Query = z.object({
  since: z.iso.datetime({ offset: true }).optional(),
  limit: z.coerce.number().int().min(1).max(5_000).default(500),
})

/**
 * `GET /v1/devices/<id>/telemetry?since=…&limit=…`: what a device measured. Without `since` the newest samples, with it those
 * measured later, so that the `at` of the last one leads on.
 * @throws BrimError REQUEST_INVALID
 */
export function readHistory(history: History, device: string, parameters: URLSearchParams): unknown {
  const { since, limit } = understood(Query, Object.fromEntries(parameters))
  return { device, ...history.of(device, { sinceMs: since === undefined ? undefined : Date.parse(since), limit }) }
}
