import { z } from 'zod'
import { Id } from './id.ts'
import { v } from './version.ts'

/** Levels of a device's log, the most severe first; each includes those before it. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof logLevels)[number]

/** Maximum time that a device publishes a level on request, in seconds. */
export const maxLogS = 3_600

const actions = {
  /** The device takes no new jobs, and finishes those that it has. */
  drain: { type: z.literal('drain') },
  undrain: { type: z.literal('undrain') },
  /** The device publishes its log at this level for `forS` seconds. */
  logs: { type: z.literal('logs'), level: z.enum(logLevels), forS: z.number().positive().max(maxLogS) },
}

/** What an operator can command a device to do. */
export const CommandAction = z.discriminatedUnion('type', [
  z.object(actions.drain),
  z.object(actions.undrain),
  z.object(actions.logs),
])
export type CommandAction = z.infer<typeof CommandAction>

const address = {
  v,
  bridge: Id.describe('The bridge that sent the command.'),
  id: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .describe('Id of the command; a repeat has the same id.'),
}
const envelope = {
  ...address,
  expiresAt: z.iso
    .datetime()
    .describe("By the bridge's clock. The bridge stops sending then; a device with a set clock rejects the command then."),
}

/** The address in an otherwise unreadable command, to which the device replies. */
export const CommandAddress = z.object({ bridge: address.bridge, id: address.id })

/** On device/<id>/commands. The bridge resends it until the device replies or the command expires. */
export const DeviceCommand = z.discriminatedUnion('type', [
  z.object({ ...envelope, ...actions.drain }),
  z.object({ ...envelope, ...actions.undrain }),
  z.object({ ...envelope, ...actions.logs }),
])
export type DeviceCommand = z.infer<typeof DeviceCommand>

/** What a device reads first. It refuses an action that it does not know, so that a newer bridge learns of it. */
export const CommandEnvelope = z.looseObject({ ...envelope, type: z.string().max(64) })
export type CommandEnvelope = z.infer<typeof CommandEnvelope>

/** On device/<id>/replies. A repeated command gets the same reply. */
export const CommandReply = z.object({
  ...address,
  at: z.iso.datetime(),
  outcome: z.enum(['done', 'refused', 'expired']),
  reason: z.string().max(500).optional().describe('Why the command was not carried out.'),
})
export type CommandReply = z.infer<typeof CommandReply>

/**
 * On device/<id>/log: one line of the device's log. The device publishes warnings and errors always, other levels on
 * request. Lines contain no prompts or answers: of errors the code, and the message only if it cannot quote them.
 */
export const DeviceLog = z.object({
  v,
  at: z.iso.datetime().describe("By the device's clock."),
  birth: z.int().min(1),
  clockIsSet: z.boolean().optional().describe('False: the clock of the device was not set, so `at` is meaningless.'),
  replayed: z.boolean().optional().describe('True: the line was logged while the device was offline.'),
  level: z.enum(logLevels),
  component: z.string().max(64),
  message: z.string().max(500),
  fields: z.record(z.string().max(64), z.union([z.string().max(500), z.number(), z.boolean(), z.null()])),
  dropped: z.int().min(0).describe('Number of lines dropped before this one, because there were too many.'),
})
export type DeviceLog = z.infer<typeof DeviceLog>
