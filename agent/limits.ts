import { z } from 'zod'

/**
 * What protects the agent from the clients of its API and from its bridges. Each limit is set by
 * `brim agent run --limit <name>=<number>`. docs/limits.md is generated from this table.
 */
export const AgentLimits = z.strictObject({
  apiBodyBytes: z
    .int()
    .min(1_024)
    .default(8 * 2 ** 20)
    .describe("size of a request to the agent's API, in bytes; a larger one gets status 413"),
})
export type AgentLimits = z.infer<typeof AgentLimits>
