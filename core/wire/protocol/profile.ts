import { z } from 'zod'

/** Beyond these bounds lies no model, and arithmetic that does not end in a number. */
const ms = z.number().min(0).max(3_600_000)
const ratio = z.number().min(1e-3).max(1e3)

/** How fast one small model writes on a device, in the result of a job of the kind `profile`. PICE, offline profiling. */
export const SmallModelProfile = z.object({
  model: z.string().min(1).max(256),
  ttftMs: ms,
  /** Mean gap between the tokens after the first, of one sequence alone. */
  tpotMs: ms.min(1e-3),
  /** Time to open the model; 0 for one on a server. Absent in profiles of earlier releases. */
  loadMs: ms.default(0),
  /** p: throughput of n sequences decoded together over that of one, ascending in n. Empty: not measured. */
  parallel: z
    .array(z.tuple([z.int().min(1).max(1_024), ratio]))
    .max(16)
    .default([]),
  /** Of a prompt, on average; absent in profiles of earlier releases, and where the model is not measured so. */
  prefillTokensPerS: z.number().positive().max(1e9).optional(),
  /** Positions of its context; absent: not known, as of a model on a server. */
  contextTokens: z.int().positive().optional(),
  /** Its tokens for the text of one token of the device's LLM; 1 where there is none to compare with. */
  tokensPerLlmToken: ratio.default(1),
})
export type SmallModelProfile = z.infer<typeof SmallModelProfile>

/** What the bridge reads in the result of `profile`; devices report more. */
export const DeviceProfile = z.object({
  measuredAt: z.iso.datetime(),
  /** Ascending by size. */
  models: z.array(SmallModelProfile).max(64),
})
export type DeviceProfile = z.infer<typeof DeviceProfile>
