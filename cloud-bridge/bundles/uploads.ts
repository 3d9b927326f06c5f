import { mkdir, open, readdir, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { BrimError } from '../../core/kit/base/errors.ts'
import { type MissingFile, maxPieceBytes } from '../../core/wire/protocol/http/uploads.ts'

/** Free space that uploads leave for the bridge's databases. */
const reserveBytes = 2 ** 30
/** Age at which an upload that nothing needed is deleted. */
const abandonedMs = 7 * 86_400_000

/** Files that operators upload in pieces, each under its sha256, until something that needs them is published. */
export class Uploads {
  readonly #folder: string
  readonly #maxBytes: number
  /** Files that a request appends to. */
  readonly #busy = new Set<string>()

  constructor(folder: string, maxBytes: number) {
    this.#folder = folder
    this.#maxBytes = maxBytes
  }

  pathOf(sha256: string): string {
    return join(this.#folder, sha256)
  }

  /** Bytes that are on disk. */
  async bytesOf(sha256: string): Promise<number> {
    return (await stat(this.pathOf(sha256)).catch(() => undefined))?.size ?? 0
  }

  /** Undefined: the whole file is there. Its hash is not checked. */
  async missing({ sha256, bytes }: Pick<MissingFile, 'sha256' | 'bytes'>): Promise<MissingFile | undefined> {
    const uploadedBytes = await this.bytesOf(sha256)
    if (uploadedBytes > bytes) await this.remove([sha256])
    return uploadedBytes === bytes && bytes > 0
      ? undefined
      : { sha256, bytes, uploadedBytes: uploadedBytes > bytes ? 0 : uploadedBytes }
  }

  /**
   * Appends a piece if the file has `from` bytes and no other request appends to it. What has arrived of a piece that breaks off
   * stays.
   * @returns the bytes of the file then, which are on disk
   * @throws BrimError REQUEST_INVALID, DISK_FULL
   */
  async append(sha256: string, from: number, piece: Readable): Promise<number> {
    const have = await this.bytesOf(sha256)
    if (have !== from || this.#busy.has(sha256)) {
      piece.resume()
      return have
    }
    this.#busy.add(sha256)
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await this.#requireSpace()
      return await write(this.pathOf(sha256), from, piece)
    } finally {
      this.#busy.delete(sha256)
    }
  }

  async remove(hashes: readonly string[]): Promise<void> {
    for (const sha256 of hashes) await rm(this.pathOf(sha256), { force: true })
  }

  /** @param nowMs wall clock */
  async removeAbandoned(nowMs: number): Promise<void> {
    for (const { name, mtimeMs } of await this.#files()) if (nowMs - mtimeMs > abandonedMs) await this.remove([name])
  }

  async #requireSpace(): Promise<void> {
    const used = (await this.#files()).reduce((sum, { size }) => sum + size, 0)
    if (used + maxPieceBytes > this.#maxBytes)
      throw new BrimError('DISK_FULL', `uploads that are not published yet have ${used} bytes; the limit is ${this.#maxBytes}`, {
        hint: 'publish them, or raise the limit: brim bridge run --limit uploadBytes=<number>',
      })
    const { bavail, bsize } = await statfs(this.#folder)
    if (bavail * bsize < maxPieceBytes + reserveBytes)
      throw new BrimError('DISK_FULL', `the bridge has ${bavail * bsize} bytes free, of which ${reserveBytes} stay reserved`, {
        hint: 'free space on the bridge, then push again: it goes on where it stopped',
      })
  }

  async #files() {
    const names = await readdir(this.#folder).catch(() => [])
    const found = await Promise.all(
      names.map(async (name) => {
        const { size = 0, mtimeMs = 0 } = (await stat(this.pathOf(name)).catch(() => undefined)) ?? {}
        return { name, size, mtimeMs }
      }),
    )
    return found
  }
}

async function write(path: string, from: number, piece: Readable): Promise<number> {
  await using file = await open(path, 'a', 0o600)
  let end = from
  try {
    for await (const chunk of piece as AsyncIterable<Buffer>) {
      end += chunk.byteLength
      if (end - from > maxPieceBytes)
        throw new BrimError('REQUEST_INVALID', `a piece of an upload has more than ${maxPieceBytes} bytes`)
      await file.writeFile(chunk)
    }
    await file.datasync()
    return end
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw cause
    throw new BrimError('DISK_FULL', `no space left while writing ${path}`, { cause, hint: 'free space on the bridge' })
  }
}
