import { z } from 'zod'
import { idPattern } from './topics.ts'
import { v } from './version.ts'

/** What may be asked of a device's log; each includes those before it. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof logLevels)[number]

/** Longest that a device streams a level that it does not tell by itself. */
export const maxLogS = 3_600

const wishes = {
  /** Takes no new jobs; what it was given, waiting too, is done. */
  drain: { type: z.literal('drain') },
  undrain: { type: z.literal('undrain') },
  /** Publishes its log from this level on, for so long. */
  logs: { type: z.literal('logs'), level: z.enum(logLevels), forS: z.number().positive().max(maxLogS) },
}

/** What an operator can want of a device. */
export const CommandAction = z.discriminatedUnion('type', [
  z.object(wishes.drain),
  z.object(wishes.undrain),
  z.object(wishes.logs),
])
export type CommandAction = z.infer<typeof CommandAction>

const address = {
  v,
  bridge: z.string().regex(idPattern).describe('That the order was given at.'),
  id: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .describe('Of the order: a repeat has the same.'),
}
const order = {
  ...address,
  expiresAt: z.iso
    .datetime()
    .describe("By the bridge's clock; a device whose own is not set cannot tell, and the bridge stops sending then."),
}

/** What is left of an order that cannot be read otherwise: whose it is. */
export const CommandAddress = z.object({ bridge: address.bridge, id: address.id })

/** On device/<id>/commands: an order with what is wanted. Said again until it is answered or has expired. */
export const Command = z.discriminatedUnion('type', [
  z.object({ ...order, ...wishes.drain }),
  z.object({ ...order, ...wishes.undrain }),
  z.object({ ...order, ...wishes.logs }),
])
export type Command = z.infer<typeof Command>

/** What a device reads of it first. What it does not know as a wish it refuses: a newer bridge learns that it is too old. */
export const CommandEnvelope = z.looseObject({ ...order, type: z.string().max(64) })
export type CommandEnvelope = z.infer<typeof CommandEnvelope>

/** On device/<id>/replies; a repeat of the order gets the same reply. */
export const CommandReply = z.object({
  ...address,
  at: z.iso.datetime(),
  outcome: z.enum(['done', 'refused', 'expired']),
  reason: z.string().max(500).optional().describe('Why not.'),
})
export type CommandReply = z.infer<typeof CommandReply>

/**
 * On device/<id>/log: one line of the device's log. Warnings and errors by themselves, all else on request. Nothing
 * of what is asked or answered: of errors their code, and a message only where it cannot quote anyone.
 */
export const DeviceLog = z.object({
  v,
  at: z.iso.datetime().describe("By the device's clock."),
  birth: z.int().min(1),
  clockIsSet: z.boolean().optional().describe('False: nobody had told the device the time, so `at` is none.'),
  replayed: z.boolean().optional().describe('True: logged while no bridge heard, said now.'),
  level: z.enum(logLevels),
  component: z.string().max(64),
  message: z.string().max(500),
  fields: z.record(z.string().max(64), z.union([z.string().max(500), z.number(), z.boolean(), z.null()])),
  dropped: z.int().min(0).describe('Lines that were left out before this one: there were too many.'),
})
export type DeviceLog = z.infer<typeof DeviceLog>
