import { z } from 'zod'

/** What computes a model, as users see it. */
export const ShownComputing = z.object({
  provider: z.string().max(64).describe('cpu, webgpu, cuda, or the name of a provider of ONNX Runtime.'),
  reason: z.string().max(512).describe('Why: asked for, measured as faster, or what keeps a GPU from it.'),
})
export type ShownComputing = z.infer<typeof ShownComputing>
