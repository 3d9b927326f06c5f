import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

/** Hex. @throws as the file system; the signal's reason */
export async function sha256OfFile(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20, ...(signal && { signal }) }))
    hash.update(chunk as Buffer)
  return hash.digest('hex')
}
