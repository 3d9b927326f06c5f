import { z } from 'zod'
import { SignatureFile } from '../../signing/signature.ts'
import { get, type Operations, post } from './operation.ts'
import { Published } from './uploads.ts'

export const ServedBundle = z.object({
  modelId: z.string(),
  manifestSha256: z.string().describe('Covers every byte of the bundle.'),
  name: z.string(),
  parts: z.array(z.string()),
  bytes: z.int().min(0),
  signedBy: z.array(z.string()).default([]).describe('Public keys whose signatures fit the manifest.'),
})
export type ServedBundle = z.infer<typeof ServedBundle>

export const bundleOperations = {
  list: get('/v1/bundles', 'fetch', 'Bundles that devices can install from this bridge', {
    response: z.object({ bundles: z.array(ServedBundle) }),
  }),
  file: get(
    '/v1/bundles/:modelId/*',
    'fetch',
    'One file of a bundle, or its `manifest.sig.json`; for devices not of its middle part; a Range header `bytes=<n>-` resumes a download',
    {},
  ),
  publish: post(
    '/v1/bundles',
    'administer',
    'Publishes a bundle whose files have been uploaded, in place of the published version of the same model',
    {
      body: z.strictObject({
        manifest: z.string().describe('Text of manifest.json, every byte of it.'),
        signatures: SignatureFile.optional(),
      }),
      maxBodyBytes: 16 * 2 ** 20,
      response: Published,
    },
  ),
} satisfies Operations
