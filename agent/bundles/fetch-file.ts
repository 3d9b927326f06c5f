import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { BrimError } from '../../core/base/errors.ts'
import { shownUrl } from '../../core/base/shown-url.ts'
import { type GetOptions, get, unavailable } from './get.ts'

interface WantedFile {
  readonly url: URL
  readonly to: string
  readonly bytes: number
  readonly sha256: string
}

/**
 * Downloads one file, and continues the download of an interrupted call. The file is on disk on return.
 * @param onBytes called with the number of the file's bytes on disk
 * @returns whether the hash is right, otherwise the file is deleted; and the bytes received over the network
 * @throws BrimError as get, BUNDLE_CORRUPT for more bytes than announced, DISK_FULL
 */
export async function fetchFile(
  { url, to, bytes, sha256 }: WantedFile,
  options: GetOptions,
  onBytes: (count: number) => void,
): Promise<{ isIntact: boolean; fetchedBytes: number }> {
  await mkdir(dirname(to), { recursive: true })
  const before = (await stat(to).catch(() => undefined))?.size
  const have = before === undefined || before > bytes ? 0 : before
  let fetchedBytes = before === bytes ? 0 : await append(url, to, have, bytes, options, onBytes)
  let isIntact = await isHashed(to, sha256, options.signal)
  // The earlier part may be wrong, or the server's file may have changed: downloads it once more from the start.
  if (!isIntact && before !== undefined) {
    fetchedBytes += await append(url, to, 0, bytes, options, onBytes)
    isIntact = await isHashed(to, sha256, options.signal)
  }
  if (!isIntact) await rm(to)
  onBytes(bytes)
  return { isIntact, fetchedBytes }
}

/** @returns received bytes */
async function append(
  url: URL,
  to: string,
  have: number,
  bytes: number,
  options: GetOptions,
  onBytes: (count: number) => void,
): Promise<number> {
  const { body, from } = await get(url, { ...options, from: have })
  const length = Number(body.headers['content-length'] ?? bytes)
  // Such as the login page of a captive portal: it must not replace the part on disk.
  if (from < have && length < bytes) {
    body.destroy()
    throw unavailable(url, new Error(`its server sends ${length} bytes, not ${bytes}`))
  }
  const file = await open(to, from === 0 ? 'w' : 'a')
  let end = from
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      end += chunk.byteLength
      // More bytes than announced must not fill the disk.
      if (end > bytes) throw new BrimError('BUNDLE_CORRUPT', `${shownUrl(url)} has more than the announced ${bytes} bytes`)
      await write(file, chunk, to)
      onBytes(end)
    }
    await file.datasync()
  } catch (cause) {
    options.signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : unavailable(url, cause)
  } finally {
    body.destroy()
    await file.close()
  }
  if (end < bytes) throw unavailable(url, new Error(`the response ended after ${end} of ${bytes} bytes`))
  return end - from
}

async function write(file: FileHandle, chunk: Buffer, to: string): Promise<void> {
  try {
    await file.writeFile(chunk)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw new Error(`${to} cannot be written`, { cause })
    throw new BrimError('DISK_FULL', `no space left while writing ${to}`, {
      cause,
      hint: 'free space on the device, then retry the job',
    })
  }
}

/** Hashes the file as it is on disk. */
async function isHashed(path: string, sha256: string, signal: AbortSignal): Promise<boolean> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20, signal })) hash.update(chunk as Buffer)
  return hash.digest('hex') === sha256
}
