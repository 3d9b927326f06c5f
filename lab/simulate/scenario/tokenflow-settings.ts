import { z } from 'zod'
import { tokenflowLimits } from '../../../core/policy/tokenflow/named-policies.ts'

const { intervalMs, conservativeness } = tokenflowLimits

/** How the cloud chooses the requests that hold its memory, where its policy is tokenflow. */
export const TokenFlowSettings = z
  .strictObject({
    intervalMs: z.number().positive().default(intervalMs).describe('Δt: the memory is given out anew at most this often'),
    conservativeness: z
      .number()
      .min(1)
      .default(conservativeness)
      .describe('μ_b: requests are preempted while their buffers last so many swaps; 20: nearly first come, first served'),
  })
  .meta({ id: 'TokenFlowSettings' })
