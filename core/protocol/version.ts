import { z } from 'zod'

/** Of the messages, and of the topics (`brim/v1/…`). What is added within a version is a field that older releases drop. */
export const protocolVersion = 1

/** First field of every message that stands alone: a newer version is refused by name (read-message.ts). */
export const v = z.literal(protocolVersion).describe('Version of the message.')
