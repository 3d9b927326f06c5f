import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { dirname } from 'node:path'
import { BrimError } from './errors.ts'
import { shownUrl } from './shown-url.ts'

export interface WantedFile {
  /** For error messages. */
  readonly url: URL
  readonly to: string
  readonly bytes: number
  /** Whether the file on disk has the announced hash. */
  readonly isIntact: () => Promise<boolean>
}

/** How the bytes of a file are received. */
export interface FileSource {
  /** @returns the body, and `from`, its offset: the requested one, or 0 if the server ignores ranges */
  readonly start: (from: number) => Promise<{ body: IncomingMessage; from: number }>
  /** Repeats an attempt while its failure may pass. */
  readonly patiently: (attempt: () => Promise<void>) => Promise<void>
  /** The error of an attempt that may be repeated. */
  readonly unavailable: (cause: unknown) => BrimError
  /** The error of a file that differs from the announced one. */
  readonly corrupt: (message: string) => BrimError
  /** @param received bytes of this chunk @param end bytes of the file on disk */
  readonly onChunk: (received: number, end: number) => void
  readonly signal: AbortSignal
}

/**
 * Downloads one file, and continues the download of an interrupted call. The file is on disk on return.
 * @returns whether the hash is right; otherwise the file is deleted
 * @throws BrimError as the source does, also for more bytes than announced; DISK_FULL
 */
export async function downloadResumed(wanted: WantedFile, source: FileSource): Promise<boolean> {
  const { to, bytes, isIntact } = wanted
  await mkdir(dirname(to), { recursive: true })
  const sizeOf = async () => (await stat(to).catch(() => undefined))?.size
  const before = await sizeOf()
  let tries = 0
  let triesBefore = 0
  /** @param first whether the first try begins after the bytes on disk, as the others do */
  const download = (first: 'go on' | 'anew') =>
    source.patiently(async () => {
      const size = (first === 'anew' && tries === triesBefore ? undefined : await sizeOf()) ?? 0
      tries += 1
      await append(wanted, size > bytes ? 0 : size, source)
    })
  if (before !== bytes) await download('go on')
  if (await isIntact()) return true
  // The earlier part may be wrong, or the server's file may have changed: downloads it once more from the start.
  if (before !== undefined || tries > 1) {
    triesBefore = tries
    await download('anew')
    if (await isIntact()) return true
  }
  await rm(to)
  return false
}

async function append({ url, to, bytes }: WantedFile, have: number, source: FileSource): Promise<void> {
  const { unavailable, corrupt, onChunk, signal } = source
  const { body, from } = await source.start(have)
  const length = Number(body.headers['content-length'] ?? bytes)
  // Such as the login page of a captive portal: it must not replace the part on disk.
  if (from < have && length < bytes) {
    body.destroy()
    throw unavailable(new Error(`its server sends ${length} bytes, not ${bytes}`))
  }
  const file = await open(to, from === 0 ? 'w' : 'a')
  let end = from
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      end += chunk.byteLength
      // More bytes than announced must not fill the disk.
      if (end > bytes) throw corrupt(`${shownUrl(url)} has more than the announced ${bytes} bytes`)
      await write(file, chunk, to)
      onChunk(chunk.byteLength, end)
    }
    await file.datasync()
  } catch (cause) {
    signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : unavailable(cause)
  } finally {
    body.destroy()
    await file.close()
  }
  if (end < bytes) throw unavailable(new Error(`the response ended after ${end} of ${bytes} bytes`))
}

async function write(file: FileHandle, chunk: Buffer, to: string): Promise<void> {
  try {
    await file.writeFile(chunk)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw new Error(`${to} cannot be written`, { cause })
    throw new BrimError('DISK_FULL', `no space left while writing ${to}`, {
      cause,
      hint: 'free some space, then try again: the part on disk is kept',
    })
  }
}
