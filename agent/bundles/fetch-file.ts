import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { BrimError } from '../../core/base/errors.ts'
import { type GetOptions, get, unavailable } from './get.ts'

export interface WantedFile {
  readonly url: URL
  readonly to: string
  readonly bytes: number
  readonly sha256: string
}

/**
 * Fetches one file, going on where an earlier call was interrupted; on disk when it returns.
 * @param onBytes how many of the file's bytes are there, whenever there are more
 * @returns whether it has the hash that it should have, and the bytes that came over the network; gone where not
 * @throws BrimError as get, BUNDLE_CORRUPT for more bytes than announced, DISK_FULL
 */
export async function fetchFile(
  { url, to, bytes, sha256 }: WantedFile,
  options: GetOptions,
  onBytes: (count: number) => void,
): Promise<{ isRight: boolean; fetchedBytes: number }> {
  await mkdir(dirname(to), { recursive: true })
  const before = (await stat(to).catch(() => undefined))?.size
  const have = before === undefined || before > bytes ? 0 : before
  let fetchedBytes = before === bytes ? 0 : await append(url, to, have, bytes, options, onBytes)
  let isRight = await isHashed(to, sha256, options.signal)
  // What was there before may have been wrong, or the server's file another by now: all of it comes once more.
  if (!isRight && before !== undefined) {
    fetchedBytes += await append(url, to, 0, bytes, options, onBytes)
    isRight = await isHashed(to, sha256, options.signal)
  }
  if (!isRight) await rm(to)
  onBytes(bytes)
  return { isRight, fetchedBytes }
}

/** @returns bytes that came */
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
  // The page of a network that wants a login first, say: what is there already does not make way for that.
  if (from < have && length < bytes) {
    body.destroy()
    throw unavailable(url, new Error(`its server has ${length} bytes, not ${bytes}`))
  }
  const file = await open(to, from === 0 ? 'w' : 'a')
  let end = from
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      end += chunk.byteLength
      // Nobody fills our disk with what was never announced.
      if (end > bytes) throw new BrimError('BUNDLE_CORRUPT', `${url.href} has more than the ${bytes} bytes that it should have`)
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
  if (end < bytes) throw unavailable(url, new Error(`it ended after ${end} of ${bytes} bytes`))
  return end - from
}

async function write(file: FileHandle, chunk: Buffer, to: string): Promise<void> {
  try {
    await file.writeFile(chunk)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw new Error(`${to} cannot be written`, { cause })
    throw new BrimError('DISK_FULL', `no space left while writing ${to}`, { cause, hint: 'free some space, then retry the job' })
  }
}

/** Read back from the disk: what counts is what is there. */
async function isHashed(path: string, sha256: string, signal: AbortSignal): Promise<boolean> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20, signal })) hash.update(chunk as Buffer)
  return hash.digest('hex') === sha256
}
