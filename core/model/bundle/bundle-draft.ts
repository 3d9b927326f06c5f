import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { type Manifest, manifestFile } from './manifest.ts'

export type FileRecord = Manifest['files'][number]

/** A bundle under construction in a folder beside its target. `commit` renames it to the target. */
export class BundleDraft {
  readonly #target: string
  readonly #folder: string
  readonly #replace: boolean
  readonly #records: FileRecord[] = []
  /** The topmost folder that was created for this draft. */
  #createdFolder: string | undefined
  #open: FileSink | undefined

  private constructor(target: string, replace: boolean) {
    this.#target = target
    this.#folder = `${target}${draftSuffix}${process.pid}`
    this.#replace = replace
  }

  /**
   * Creates the folder of the draft and removes drafts of this target whose builds were killed.
   * @throws BrimError TARGET_UNWRITABLE, also if the target exists and must not be replaced
   */
  static async begin(target: string, replace: boolean): Promise<BundleDraft> {
    const draft = new BundleDraft(resolve(target), replace)
    if (await exists(draft.#target)) await requireReplaceable(draft.#target, replace)
    await withWriteErrors(draft.#target, async () => {
      await removeAbandonedDrafts(draft.#target)
      await rm(draft.#folder, { recursive: true, force: true })
      draft.#createdFolder = await mkdir(draft.#folder, { recursive: true })
    })
    return draft
  }

  /** The folder of the draft, on the target's file system. */
  get folder(): string {
    return this.#folder
  }

  /** The files that are complete. */
  get records(): readonly FileRecord[] {
    return this.#records
  }

  /** Opens a file for writing. Only one file is open at a time. @param path relative, with '/' */
  async file(path: string): Promise<FileSink> {
    const place = join(this.#folder, path)
    this.#open = await withWriteErrors(this.#target, async () => {
      await mkdir(dirname(place), { recursive: true })
      return new FileSink(path, await open(place, 'w'), this.#target, (record) => this.#records.push(record))
    })
    return this.#open
  }

  async write(path: string, content: Uint8Array | string): Promise<FileRecord> {
    const sink = await this.file(path)
    await sink.write(typeof content === 'string' ? Buffer.from(content) : content)
    return sink.close()
  }

  /** Renames the draft to the target: one rename, or two where an older bundle is replaced. */
  async commit(): Promise<void> {
    await withWriteErrors(this.#target, async () => {
      // Another build may have created the target in the meantime.
      if (await exists(this.#target)) await requireReplaceable(this.#target, this.#replace)
      else return rename(this.#folder, this.#target)
      const old = `${this.#target}.old-${process.pid}`
      await rename(this.#target, old)
      try {
        await rename(this.#folder, this.#target)
      } catch (error) {
        await rename(old, this.#target)
        throw error
      }
      await rm(old, { recursive: true, force: true })
    })
  }

  async discard(): Promise<void> {
    await this.#open?.abort()
    await rm(this.#folder, { recursive: true, force: true })
    // Folders above it that were created for it; rmdir fails if they are in use by now.
    for (
      let above = dirname(this.#folder);
      this.#createdFolder !== undefined && above.startsWith(this.#createdFolder);
      above = dirname(above)
    )
      await rmdir(above).catch(() => {})
  }
}

/** One file of a draft, written sequentially and hashed while it is written. */
export class FileSink {
  readonly #path: string
  readonly #handle: FileHandle
  readonly #target: string
  readonly #done: (record: FileRecord) => void
  readonly #hash: Hash = createHash('sha256')
  #position = 0
  #isOpen = true

  constructor(path: string, handle: FileHandle, target: string, done: (record: FileRecord) => void) {
    this.#path = path
    this.#handle = handle
    this.#target = target
    this.#done = done
  }

  get position(): number {
    return this.#position
  }

  /** When this resolves, the bytes are handed to the system and the caller may reuse the array. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes)
    await withWriteErrors(this.#target, async () => {
      for (let done = 0; done < bytes.length; ) done += (await this.#handle.write(bytes, done)).bytesWritten
    })
    this.#position += bytes.length
  }

  /** Writes zeros up to an offset. */
  async padTo(offset: number): Promise<void> {
    if (offset > this.#position) await this.write(new Uint8Array(offset - this.#position))
  }

  async close(): Promise<FileRecord> {
    await withWriteErrors(this.#target, () => this.abort())
    const record = { path: this.#path, bytes: this.#position, sha256: this.#hash.digest('hex') }
    this.#done(record)
    return record
  }

  async abort(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#handle.close()
  }
}

/** Names host and process, so that a draft of a killed build can be recognised, even on a shared disk. */
const draftSuffix = `.partial-${hostname()}-`

async function removeAbandonedDrafts(target: string): Promise<void> {
  const mark = `${basename(target)}${draftSuffix}`
  const beside = await readdir(dirname(target)).catch(() => [])
  for (const name of beside.filter((entry) => entry.startsWith(mark)))
    if (!isRunning(Number(name.slice(mark.length)))) await rm(join(dirname(target), name), { recursive: true, force: true })
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Only a bundle may be replaced, so that a mistyped --out deletes no other folder. */
async function requireReplaceable(target: string, replace: boolean): Promise<void> {
  if (!(await exists(join(target, manifestFile))))
    throw new BrimError('TARGET_UNWRITABLE', `${target} exists and is not a bundle`, { hint: 'choose another --out' })
  if (!replace)
    throw new BrimError('TARGET_UNWRITABLE', `${target} exists already`, {
      hint: 'choose another --out, or replace it with --force',
    })
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

/** Turns file system errors into errors that name the target. */
async function withWriteErrors<T>(target: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    const code = (cause as NodeJS.ErrnoException).code
    if (code === 'ENOSPC' || code === 'EDQUOT')
      throw new BrimError('DISK_FULL', `no space left while writing ${target}`, {
        cause,
        hint: 'free some space, or choose another --out',
      })
    throw new BrimError('TARGET_UNWRITABLE', `cannot write ${target}`, {
      cause,
      hint: 'check the permissions of its parent folder and that the disk is writable',
    })
  }
}
