import { z } from 'zod'
import { get, type Operations } from './operation.ts'

export const ServedBundle = z.object({
  modelId: z.string(),
  manifestSha256: z.string().describe('Covers every byte of the bundle.'),
  name: z.string(),
  parts: z.array(z.string()),
  bytes: z.int().min(0),
})
export type ServedBundle = z.infer<typeof ServedBundle>

export const bundleOperations = {
  list: get('/v1/bundles', 'fetch', 'Bundles that devices can install from this bridge', {
    response: z.object({ bundles: z.array(ServedBundle) }),
  }),
  file: get(
    '/v1/bundles/:modelId/*',
    'fetch',
    'One file of a bundle, for devices not of its middle part; a Range header `bytes=<n>-` resumes a download',
    {},
  ),
} satisfies Operations
