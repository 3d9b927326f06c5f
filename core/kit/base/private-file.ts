import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { BrimError, type ErrorCode, orThrow } from './errors.ts'

/** What errors say of a private file. */
interface PrivateFileErrors {
  readonly code: ErrorCode
  /** As in `the key file`. */
  readonly what: string
  /** What to try where it cannot be read. */
  readonly hint?: string
  /** What to do besides where others may have read it. */
  readonly leaked?: string
}

/** The text of a private file. @throws BrimError with this code, also for a file that other users can read */
export function readPrivate(path: string, { code, what, hint, leaked }: PrivateFileErrors): string {
  let mode: number
  try {
    mode = statSync(path).mode & 0o777
    if ((mode & 0o077) === 0) return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new BrimError(code, `${what} ${path} cannot be read`, { cause, hint })
  }
  throw new BrimError(code, `${what} ${path} is readable by other users (mode 0${mode.toString(8)})`, {
    hint: `chmod 600 ${path}${leaked === undefined ? '' : `; ${leaked}`}`,
  })
}

/** The text of a private file without the space around it. @throws BrimError CONFIG_INVALID, also for a file that others can read */
export const readSecret = (path: string): string =>
  readPrivate(path, { code: 'CONFIG_INVALID', what: 'the secret', hint: 'check the path' }).trim()

/** Creates an empty file that only this user can read. @throws BrimError TARGET_UNWRITABLE, also if it exists */
export function createPrivate(path: string): void {
  orThrow(
    () => writeFileSync(path, '', { mode: 0o600, flag: 'wx' }),
    'TARGET_UNWRITABLE',
    `${path} cannot be created`,
    'give the path of a new file, in a folder that this user can write',
  )
}

/**
 * Makes a secret that cannot be made again, and writes it to a new private file, which is created first.
 * @param path undefined: no file
 * @throws BrimError TARGET_UNWRITABLE, and what `make` throws
 */
export async function secretInto<T>(path: string | undefined, make: () => Promise<T>, textOf: (made: T) => string): Promise<T> {
  if (path === undefined) return make()
  createPrivate(path)
  const made = await make().catch((error: unknown) => {
    // The next attempt creates it again.
    rmSync(path)
    throw error
  })
  writePrivate(path, `${textOf(made)}\n`)
  return made
}

/** Writes a file atomically and durably, readable by this user only. @throws BrimError TARGET_UNWRITABLE */
export function writePrivate(path: string, text: string): void {
  const unfinished = `${path}.${process.pid}`
  try {
    makeFolder(dirname(path))
    rmSync(unfinished, { force: true })
    try {
      // Not through a link that another user has put there.
      writeFileSync(unfinished, text, { mode: 0o600, flush: true, flag: 'wx' })
      renamePrivate(unfinished, path)
    } finally {
      rmSync(unfinished, { force: true })
    }
  } catch (cause) {
    throw new BrimError('TARGET_UNWRITABLE', `${path} cannot be written`, { cause, hint: 'does the folder belong to this user?' })
  }
}

/**
 * Opens a file in a folder that another user may write: not through a link, and without waiting for a pipe.
 * @returns its descriptor. Throws what the file system throws, and where it is no file.
 */
export function openPlainFile(path: string): number {
  // Windows has neither flag.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0))
  if (fstatSync(file).isFile()) return file
  closeSync(file)
  throw new Error(`${path} is no file`)
}

/** Renames a file within its folder, durably. Throws what the file system throws. */
export function renamePrivate(from: string, to: string): void {
  renameSync(from, to)
  syncToDisk(dirname(to))
}

/** Creates a folder that only this user can read, and those above it, unless they exist. Throws what the file system throws. */
export function makeFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let made = resolve(path); ; made = dirname(made)) {
    syncToDisk(dirname(made))
    if (made === resolve(first)) return
  }
}

/** On return, the content of a file, or the names in a folder, survive a power cut. Throws what the file system throws. */
export function syncToDisk(path: string): void {
  // Windows opens no folders, and syncs no file that is open for reading.
  if (process.platform === 'win32') return
  const opened = openSync(path, 'r')
  try {
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}

/** The names in a folder and in those below it survive a power cut; so do the contents that were synced. */
export function syncNames(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) syncNames(join(folder, entry.name))
  syncToDisk(folder)
}
