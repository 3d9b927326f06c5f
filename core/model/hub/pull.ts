import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, statfs } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import type { Clock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { megabytes } from '../../kit/base/megabytes.ts'
import { renamePrivate, syncNames } from '../../kit/base/private-file.ts'
import { downloadResumed } from '../../kit/base/resumed-download.ts'
import { sha256OfFile } from '../../kit/base/sha256-of-file.ts'
import { lockFolder } from '../../kit/store/lock-folder.ts'
import { weightFiles } from '../bundle/checkpoint.ts'
import { type ChosenFiles, chooseFiles } from './choose-files.ts'
import type { Hub, HubFile, HubModel } from './hub.ts'
import { hubInvalid } from './hub-errors.ts'
import { type HubName, repoOf } from './hub-name.ts'

export interface PullOptions {
  readonly hub: Hub
  readonly name: HubName
  /** The GGUF file, where there are several. */
  readonly file?: string | undefined
  /** Folder of downloaded models. */
  readonly folder: string
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly onEvent?: (event: PullEvent) => void
}

export type PullEvent =
  | { readonly kind: 'progress'; readonly doneBytes: number; readonly totalBytes: number }
  /** Another process downloads a model of the same name. */
  | { readonly kind: 'waiting' }

export interface PulledModel {
  /** For `openCheckpoint`: a folder, or a GGUF file. */
  readonly path: string
  readonly commit: string
  readonly bytes: number
  /** Received now; 0 if the model was there. */
  readonly fetchedBytes: number
}

const lockPollMs = 1_000
/** Space that a download leaves for other programs. */
const reserveBytes = 64 * 2 ** 20

/**
 * Downloads the files of a model that a build reads, verifies their hashes, and continues an interrupted call. The model
 * appears in `<folder>/OWNER/NAME/<commit>` at once, when all files are right.
 * @throws BrimError as Hub and chooseFiles do, HUB_INVALID for a wrong hash, DISK_FULL; the signal's reason when aborted
 */
export async function pullModel(options: PullOptions): Promise<PulledModel> {
  const { hub, name, folder, file } = options
  const models = join(folder, name.owner, name.name)
  const commit = await hub.commitOf(name)
  const whole = join(models, commit)
  // Safetensors need no list of files to be found again.
  if (file === undefined && existsSync(whole)) return present(whole, commit)
  const unlock = await lock(models, options)
  try {
    if (file === undefined && existsSync(whole)) return await present(whole, commit)
    const model = await hub.model({ ...name, revision: commit })
    const choice = chooseFiles(repoOf(name), model.files, file)
    const [first] = choice.files
    const to = choice.kind === 'gguf' && first ? `${whole}.${basename(first.path, '.gguf')}` : whole
    const path = choice.kind === 'gguf' && first ? join(to, basename(first.path)) : to
    if (existsSync(to)) return await present(path, commit)
    const partial = `${to}.partial`
    const got = await download(options, model, choice, partial)
    syncNames(partial)
    renamePrivate(partial, to)
    return { path, commit, ...got }
  } finally {
    unlock()
  }
}

async function present(path: string, commit: string): Promise<PulledModel> {
  const folder = path.endsWith('.gguf') ? dirname(path) : path
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = found.filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(file.parentPath, file.name))).size))
  return { path, commit, bytes: sizes.reduce((sum, size) => sum + size, 0), fetchedBytes: 0 }
}

/** Waits for another process. @throws BrimError STORE_FAILED; the signal's reason */
async function lock(folder: string, { clock, signal, onEvent }: PullOptions): Promise<() => void> {
  for (let waited = false; ; waited = true) {
    try {
      return lockFolder(folder)
    } catch (error) {
      if (!(error instanceof BrimError) || error.code !== 'STATE_IN_USE') throw error
      if (!waited) onEvent?.({ kind: 'waiting' })
      await clock.sleep(lockPollMs, signal)
    }
  }
}

async function download(options: PullOptions, model: HubModel, choice: ChosenFiles, to: string) {
  await mkdir(to, { recursive: true })
  // A GGUF file may be in a folder of its own there; the texts of safetensors keep their places.
  const placeOf = ({ path }: HubFile) => join(to, choice.kind === 'gguf' ? basename(path) : path)
  const texts = choice.kind === 'safetensors' && choice.index ? choice.files : []
  let totalBytes = sizeOf(choice.files)
  let doneBytes = 0
  let fetchedBytes = 0
  const fetchAll = async (files: readonly HubFile[]) => {
    await requireSpace(to, files, placeOf)
    for (const file of files) {
      const onChunk = (received: number, end: number) => {
        fetchedBytes += received
        options.onEvent?.({ kind: 'progress', doneBytes: doneBytes + end, totalBytes })
      }
      await fetchVerified(options, model, file, placeOf(file), onChunk)
      doneBytes += file.bytes
    }
  }
  if (texts.length === 0) await fetchAll(choice.files)
  else {
    await fetchAll(texts)
    const shards = await shardsOf(model, to)
    totalBytes += sizeOf(shards)
    await fetchAll(shards)
  }
  return { bytes: totalBytes, fetchedBytes }
}

/** The files that the index in `folder` names. @throws BrimError CHECKPOINT_NOT_FOUND, CHECKPOINT_INVALID */
async function shardsOf({ name, files }: HubModel, folder: string): Promise<HubFile[]> {
  return (await weightFiles(folder)).map((path) => {
    const shard = files.find((each) => each.path === relative(folder, path))
    if (shard) return shard
    throw new BrimError('CHECKPOINT_NOT_FOUND', `${repoOf(name)} has no ${basename(path)}, which its index names`, {
      hint: 'its upload is not complete: choose another revision or another model',
    })
  })
}

async function fetchVerified(
  { hub, signal }: PullOptions,
  model: HubModel,
  file: HubFile,
  to: string,
  onChunk: (received: number, end: number) => void,
): Promise<void> {
  const url = hub.urlOf(model, file.path)
  let progressed = false
  const takeProgressed = () => {
    const before = progressed
    progressed = false
    return before
  }
  const isIntact = async () => (await hashOf(to, file, signal)) === file.hash.hex
  const wanted = { url, to, bytes: file.bytes, isIntact }
  const right = await downloadResumed(wanted, {
    start: (from) => hub.start(model, file.path, from),
    patiently: (attempt) => hub.patiently(attempt, takeProgressed),
    unavailable: (cause) => hub.unavailable(cause),
    corrupt: (message) => hubInvalid(message),
    onChunk: (received, end) => {
      progressed = true
      onChunk(received, end)
    },
    signal,
  })
  const algorithm = file.hash.kind === 'git' ? 'sha1' : 'sha256'
  if (!right)
    throw hubInvalid(`${file.path} of ${repoOf(model.name)} is not the file that the hub lists: its ${algorithm} is wrong`)
}

async function hashOf(path: string, { hash, bytes }: HubFile, signal: AbortSignal): Promise<string> {
  if (hash.kind === 'sha256') return sha256OfFile(path, signal)
  return createHash('sha1')
    .update(`blob ${bytes}\0`)
    .update(await readFile(path))
    .digest('hex')
}

const sizeOf = (files: readonly HubFile[]): number => files.reduce((sum, { bytes }) => sum + bytes, 0)

/** @throws BrimError DISK_FULL if the missing bytes exceed the free space */
async function requireSpace(folder: string, files: readonly HubFile[], placeOf: (file: HubFile) => string): Promise<void> {
  const sizes = files.map(async (file) => Math.min(file.bytes, (await stat(placeOf(file)).catch(() => undefined))?.size ?? 0))
  const have = (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, 0)
  const needed = sizeOf(files) - have
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (needed === 0 || needed + reserveBytes <= free) return
  throw new BrimError(
    'DISK_FULL',
    `the download needs ${megabytes(needed)} and ${megabytes(reserveBytes)} to spare; the disk of ${dirname(folder)} has ${megabytes(free)} free`,
    {
      hint: 'free some space, or set XDG_CACHE_HOME to a folder on another disk',
    },
  )
}
