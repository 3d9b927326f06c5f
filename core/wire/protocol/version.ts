import { z } from 'zod'

/** Version of the messages and of the topics (`brim/v1/…`). Within a version only fields are added, which older releases drop. */
export const protocolVersion = 1

/** First field of every message: another version is rejected as such (read-message.ts). */
export const v = z.literal(protocolVersion).describe('Version of the message.')
