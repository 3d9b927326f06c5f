import { z } from 'zod'
import type { History } from '../fleet/history.ts'
import { understood } from '../http/json.ts'

const Query = z.object({
  since: z.iso.datetime({ offset: true }).optional(),
  limit: z.coerce.number().int().min(1).max(5_000).default(500),
})

/**
 * `GET /v1/devices/<id>/telemetry?since=…&limit=…`: what a device measured. Without `since` the newest samples, with it those
 * measured later, the oldest first; `next` is the `since` that leads on.
 * @throws BrimError REQUEST_INVALID
 */
export function readHistory(history: History, device: string, parameters: URLSearchParams): unknown {
  const { since, limit } = understood(Query, Object.fromEntries(parameters))
  const sinceMs = since === undefined ? undefined : Date.parse(since)
  const { samples, more, nextMs } = history.of(device, { sinceMs, limit })
  return { device, samples, more, next: nextMs === null ? null : new Date(nextMs).toISOString() }
}
