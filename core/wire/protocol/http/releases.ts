import { z } from 'zod'
import { SignatureFile } from '../../signing/signature.ts'
import { get, type Operations, post } from './operation.ts'
import { Published } from './uploads.ts'

export const releasePlatforms = ['linux-arm64', 'linux-x64'] as const

/** A release of the agent's software that devices can install from this bridge. */
export const ServedRelease = z.object({
  sha256: z.string().describe('Of the archive; it covers every byte of the release.'),
  version: z.string(),
  platform: z.string().describe('`linux-arm64` or `linux-x64`; a later release may add platforms.'),
  bytes: z.int().min(0),
  signedBy: z.array(z.string()).describe('Public keys whose signatures fit the archive.'),
})
export type ServedRelease = z.infer<typeof ServedRelease>

export const releaseOperations = {
  list: get('/v1/releases', 'fetch', 'Releases of the agent that devices can install from this bridge', {
    response: z.object({ releases: z.array(ServedRelease) }),
  }),
  archive: get('/v1/releases/:sha256', 'fetch', 'Archive of a release; a Range header `bytes=<n>-` resumes a download', {}),
  signature: get('/v1/releases/:sha256/signature', 'fetch', 'Signatures of an archive', { response: SignatureFile }),
  publish: post('/v1/releases', 'administer', 'Publishes a release whose archive has been uploaded', {
    body: z.strictObject({
      sha256: z.string().regex(/^[0-9a-f]{64}$/),
      bytes: z.int().min(1),
      version: z.string().regex(/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]{1,64})?$/),
      platform: z.enum(releasePlatforms),
      signatures: SignatureFile,
    }),
    response: Published,
  }),
} satisfies Operations
