import { z } from 'zod'
import { idPattern } from './topics.ts'

/** What may be asked of a device's log; each includes those before it. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof logLevels)[number]

/** Longest that a device streams a level that it does not tell by itself. */
export const maxLogS = 3_600

/** What an operator can want of a device. */
export const CommandWish = z.discriminatedUnion('type', [
  /** Takes no new jobs; what it was given, waiting too, is done. */
  z.object({ type: z.literal('drain') }),
  z.object({ type: z.literal('undrain') }),
  /** Publishes its log from this level on, for so long. */
  z.object({ type: z.literal('logs'), level: z.enum(logLevels), forS: z.number().positive().max(maxLogS) }),
])
export type CommandWish = z.infer<typeof CommandWish>

const v = z.literal(1)
const id = z.string().regex(idPattern)
const commandId = z.string().regex(/^[0-9a-f]{16}$/)
const address = { v, bridge: id, id: commandId }

/**
 * On device/<id>/commands: an order and, beside it, the fields of a CommandWish. Said again until it is answered or has
 * expired. What a device cannot read as a wish it refuses: a newer bridge learns that it is too old.
 */
export const Command = z.looseObject({
  ...address,
  /** By the bridge's clock; a device whose own is not set cannot tell, and the bridge stops sending then. */
  expiresAt: z.iso.datetime(),
  type: z.string().max(64),
})
export type Command = z.infer<typeof Command>

/** On device/<id>/replies; a repeat of the order gets the same reply. */
export const CommandReply = z.object({
  ...address,
  at: z.iso.datetime(),
  outcome: z.enum(['done', 'refused', 'expired']),
  reason: z.string().max(500).optional(),
})
export type CommandReply = z.infer<typeof CommandReply>

/**
 * On device/<id>/log, QoS 0: one line of the device's log. Warnings and errors by themselves, all else on request. Nothing
 * of what is asked or answered: of errors their code, and a message only where it cannot quote anyone.
 */
export const DeviceLog = z.object({
  v,
  /** By the device's clock. */
  at: z.iso.datetime(),
  birth: z.int().min(1),
  level: z.enum(logLevels),
  component: z.string().max(64),
  message: z.string().max(500),
  fields: z.record(z.string().max(64), z.union([z.string().max(500), z.number(), z.boolean(), z.null()])),
  /** Lines that were left out before this one: there were too many. */
  dropped: z.int().min(0),
})
export type DeviceLog = z.infer<typeof DeviceLog>
