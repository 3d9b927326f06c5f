import { z } from 'zod'
import type { Operations } from './operation.ts'

export const ServedBundle = z.object({
  modelId: z.string(),
  manifestSha256: z.string().describe('Stands for every byte of the bundle.'),
  name: z.string(),
  parts: z.array(z.string()),
  bytes: z.int().min(0),
})
export type ServedBundle = z.infer<typeof ServedBundle>

export const bundleOperations = {
  list: {
    method: 'GET',
    path: '/v1/bundles',
    access: 'fetch',
    summary: 'Bundles that devices can install from this bridge',
    response: z.object({ bundles: z.array(ServedBundle) }),
  },
  file: {
    method: 'GET',
    path: '/v1/bundles/:modelId/*',
    access: 'fetch',
    summary: 'One file of a bundle; a Range header `bytes=<n>-` resumes a download',
  },
} as const satisfies Operations
