import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { sha256OfFile } from '../../core/kit/base/sha256-of-file.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import { type GetOptions, patiently, startDownload, unavailable } from './get.ts'

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
  const sizeOf = async () => (await stat(to).catch(() => undefined))?.size
  const before = await sizeOf()
  let fetchedBytes = 0
  let tries = 0
  let triesBefore = 0
  /** @param first whether the first try begins after the bytes on disk, as the others do */
  const download = (first: 'go on' | 'anew') =>
    patiently(async () => {
      const size = (first === 'anew' && tries === triesBefore ? undefined : await sizeOf()) ?? 0
      tries += 1
      await append(url, to, size > bytes ? 0 : size, bytes, options, onBytes, (count) => {
        fetchedBytes += count
      })
    }, options)
  if (before !== bytes) await download('go on')
  let isIntact = (await sha256OfFile(to, options.signal)) === sha256
  // The earlier part may be wrong, or the server's file may have changed: downloads it once more from the start.
  if (!isIntact && (before !== undefined || tries > 1)) {
    triesBefore = tries
    await download('anew')
    isIntact = (await sha256OfFile(to, options.signal)) === sha256
  }
  if (!isIntact) await rm(to)
  onBytes(bytes)
  return { isIntact, fetchedBytes }
}

async function append(
  url: URL,
  to: string,
  have: number,
  bytes: number,
  options: GetOptions,
  onBytes: (count: number) => void,
  onReceived: (count: number) => void,
): Promise<void> {
  const { body, from } = await startDownload(url, { ...options, from: have })
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
      options.patience.onBytes()
      onReceived(chunk.byteLength)
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
