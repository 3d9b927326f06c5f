import { z } from 'zod'
import { type Operations, post } from './operation.ts'

/** Size of one piece of an upload: a proxy and a slow link both carry it within the time of one request. */
export const maxPieceBytes = 8 * 2 ** 20

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** A file that must be uploaded before what needs it is published. */
export const MissingFile = z.object({
  sha256,
  bytes: z.int().min(0),
  uploadedBytes: z.int().min(0).describe('Bytes that the bridge has already: the upload goes on after them.'),
})
export type MissingFile = z.infer<typeof MissingFile>

/** Response of what publishes a bundle or a release. */
export const Published = z.object({
  missing: z.array(MissingFile).describe('Files to upload; then send the same request again. Empty: it is published.'),
})
export type Published = z.infer<typeof Published>

export const uploadOperations = {
  append: post(
    '/v1/uploads/:sha256',
    'administer',
    `Appends up to ${maxPieceBytes} bytes to the upload of a file, if the bridge has \`from\` bytes of it; the response says how many it has then`,
    {
      query: z.object({ from: z.coerce.number().int().min(0) }),
      maxBodyBytes: maxPieceBytes,
      response: z.object({ bytes: z.int().min(0) }),
    },
  ),
} satisfies Operations
