import { z } from 'zod'

/**
 * What protects the bridge from its clients. Each limit has a default that no correct client reaches, and is set by
 * `brim bridge run --limit <name>=<number>`. docs/limits.md is generated from this table.
 */
export const BridgeLimits = z.strictObject({
  mqttPacketBytes: z
    .int()
    .min(1_024)
    .default(256 * 1_024)
    .describe('size of an MQTT packet, in bytes; a larger one ends its connection'),
})
export type BridgeLimits = z.infer<typeof BridgeLimits>
