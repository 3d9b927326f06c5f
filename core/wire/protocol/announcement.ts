import { z } from 'zod'
import { Id } from './id.ts'

/** Of DNS-SD: bridges announce themselves as `_brim._tcp`, with the port of their HTTP API. */
export const bridgeService = 'brim'

/**
 * TXT record of an announced bridge. Anyone in the network can announce anything: it is shown to a person, and nothing is sent to an
 * address because of it.
 */
export const BridgeAnnouncement = z.object({
  id: Id,
  fleet: Id,
  /** Release. */
  version: z.string().regex(/^\d{1,4}\.\d{1,4}\.\d{1,4}[\w.+-]{0,40}$/),
  /** Where the HTTP API begins. */
  path: z.string().regex(/^\/[\w/-]{0,100}$/),
  /** SHA-256 of the public TLS key; absent: no TLS. */
  pin: z
    .string()
    .regex(/^[\w-]{43}$/)
    .optional(),
})
export type BridgeAnnouncement = z.infer<typeof BridgeAnnouncement>
