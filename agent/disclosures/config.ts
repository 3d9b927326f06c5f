import { z } from 'zod'

/** The ledger of what leaves the device. */
export const DisclosuresConfig = z.strictObject({
  days: z
    .number()
    .positive()
    .max(3_650)
    .default(90)
    .describe('max age of entries in the ledger of what has left the device (brim agent disclosures), in days'),
  mb: z.number().min(1).max(1_024).default(16).describe('max size of that ledger, in MB; the oldest entries are dropped'),
})
export type DisclosuresConfig = z.infer<typeof DisclosuresConfig>
