import { createReadStream, createWriteStream } from 'node:fs'
import { constants, type FileHandle, open, rm, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { sampledWarnings, type Warn } from '../../core/kit/base/sampled-warnings.ts'
import { SerialQueue } from '../../core/model/engine/serial-queue.ts'
import { reuseOf } from '../../core/policy/serving/prefix-reuse.ts'
import { pageRows } from '../../core/policy/serving/write-through.ts'
import { KvFile } from './kv-file.ts'
import { LeftFiles, type LeftFilesOptions } from './left-files.ts'
import { PagePool } from './page-pool.ts'
import type { Page, SlowCopy, SlowTier } from './slow-tier.ts'
import { TierBudget } from './tier-budget.ts'

export interface FileTierOptions extends LeftFilesOptions {
  readonly budgetBytes: number
  readonly clock: Clock
  readonly logger: Logger
}

/** After a failed write the tier refuses pages for this long: a full or broken disk is not tried again at every step. */
const pauseMs = 1_000
/** Of pages that are read at once. */
const maxReadBytes = 2 ** 20

/**
 * The slow tier in files, one for each stream. Those of closed streams are left to later ones, also of the next process.
 * See docs/adr/0036.
 * @throws the system's error where the folder cannot be created
 */
export function fileTier({ budgetBytes, clock, logger, ...options }: FileTierOptions): SlowTier {
  const budget = new TierBudget(budgetBytes)
  const warn = sampledWarnings(logger, clock)
  const left = new LeftFiles(options, budget, clock, warn)
  const host: CopyHost = {
    budget,
    left,
    disk: new Disk(clock, warn),
    pool: new PagePool(),
    copies: new Set(),
  }
  let opened = left.lastNumber
  const newPath = () => join(options.folder, `${++opened}.kv`)
  return {
    usage: budget,
    isLasting: options.keepMs > 0,
    allocate: (values) => host.pool.acquire(values),
    releaseFree: () => host.pool.releaseFree(),
    open: (of) => new FileCopy(new KvFile(newPath(), of), host),
    take(of, keys) {
      const found = left.find(of, keys)
      if (!found) return undefined
      const { file, pages } = found
      if (reuseOf(file.keys.length * pageRows, pages * pageRows) === 'take') {
        left.remove(file)
        return { copy: new FileCopy(file, host, { isThere: true }), pages }
      }
      const copied = file.copied(newPath(), pages)
      if (!budget.charge(copied.bytes)) return undefined
      return { copy: new FileCopy(copied, host, { isThere: true, source: file.path }), pages }
    },
    purge: (isOwned) => left.purge(isOwned),
    async close() {
      await Promise.all([...host.copies].map((copy) => copy.leave()))
      await left.close()
    },
  }
}

/** What all copies share. */
interface CopyHost {
  readonly budget: TierBudget
  readonly left: LeftFiles
  readonly disk: Disk
  /** Of pages until they are written. */
  readonly pool: PagePool
  readonly copies: Set<FileCopy>
}

/** Whether the disk took the last writes. */
class Disk {
  readonly #clock: Clock
  readonly #warn: Warn
  #pausedUntilMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, warn: Warn) {
    this.#clock = clock
    this.#warn = warn
  }

  get isPaused(): boolean {
    return this.#clock.nowMs() < this.#pausedUntilMs
  }

  readonly onFailedWrite = (err: unknown): false => {
    this.#pausedUntilMs = this.#clock.nowMs() + pauseMs
    this.#warn({ err }, 'KV not written to the slow tier')
    return false
  }

  readonly onFailedRead = (err: unknown): undefined => {
    this.#warn({ err }, 'KV not read from the slow tier')
  }
}

/** Pages [from, to), as far as the file had them. */
interface ReadPages {
  readonly from: number
  readonly to: number
  readonly bytes: Uint8Array<ArrayBuffer>
}

class FileCopy implements SlowCopy {
  readonly #kv: KvFile
  readonly #host: CopyHost
  readonly #queue = new SerialQueue()
  /** Whether the file exists. */
  #isThere: boolean
  #file: FileHandle | undefined
  /** Pages that were read with the one before. */
  #ahead: ReadPages | undefined
  #ending: Promise<void> | undefined

  /** @param source the file to copy the pages from, which may be deleted or change meanwhile: their checksums are wrong then */
  constructor(kv: KvFile, host: CopyHost, { isThere, source }: { isThere: boolean; source?: string } = { isThere: false }) {
    this.#kv = kv
    this.#host = host
    this.#isThere = isThere
    host.copies.add(this)
    if (source === undefined) return
    const copied = () =>
      pipeline(createReadStream(source, { end: kv.bytes - 1 }), createWriteStream(kv.path, { mode: 0o600, flags: 'wx' }))
    void this.#queue.run(copied).catch(host.disk.onFailedWrite)
  }

  get bytes(): number {
    return this.#kv.bytes
  }

  async save(at: number, page: Page, key?: string): Promise<boolean> {
    const { disk, pool } = this.#host
    try {
      if (disk.isPaused || !this.#kv.grow(page, at + 1, this.#charge)) return false
      return await this.#queue.run(() => this.#write(at, page, key).then(() => true, disk.onFailedWrite))
    } finally {
      pool.recycle(page)
    }
  }

  load(at: number): Promise<Page | undefined> {
    return this.#queue.run(() => this.#read(at).catch(this.#host.disk.onFailedRead))
  }

  release(): Promise<void> {
    this.#ending ??= this.#end(async () => {
      this.#host.budget.free(this.bytes)
      await rm(this.#kv.path, { force: true })
    })
    return this.#ending
  }

  leave(): Promise<void> {
    if (this.#ending || !this.#host.left.add(this.#kv)) return this.release()
    // Its age counts from now on, even after a restart.
    this.#ending = this.#end(() => utimes(this.#kv.path, new Date(), new Date()))
    return this.#ending
  }

  #end(then: () => Promise<void>): Promise<void> {
    return this.#queue.run(async () => {
      const { disk, copies } = this.#host
      await this.#file?.close().catch(disk.onFailedWrite)
      await then().catch(disk.onFailedWrite)
      copies.delete(this)
    })
  }

  readonly #charge = (bytes: number): boolean => {
    const { budget, left } = this.#host
    return budget.charge(bytes) || (left.makeRoom(bytes) && budget.charge(bytes))
  }

  async #write(at: number, page: Page, key: string | undefined): Promise<void> {
    this.#kv.mark(at)
    this.#ahead = undefined
    const [head, values] = this.#kv.encode(at, page, key)
    const file = await this.#opened()
    const { bytesWritten } = await file.writev([head, values], this.#kv.placeOf(at))
    if (bytesWritten < head.length + values.byteLength) throw new Error(`only ${bytesWritten} bytes of a page were written`)
    this.#kv.mark(at, key)
  }

  async #read(at: number): Promise<Page> {
    if (!this.#isThere || at >= this.#kv.places) throw new Error(`page ${at} is missing`)
    if (!this.#ahead || at < this.#ahead.from || at >= this.#ahead.to) this.#ahead = await this.#readFrom(at)
    const { from, to, bytes } = this.#ahead
    if (at === to - 1) this.#ahead = undefined
    const { pageBytes } = this.#kv
    const place = (at - from) * pageBytes
    return this.#kv.decode(at, bytes.subarray(place, place + pageBytes))
  }

  /** Also pages that follow: they are loaded next, as a rule. */
  async #readFrom(from: number): Promise<ReadPages> {
    const { pageBytes, places } = this.#kv
    const to = Math.min(places, from + Math.max(1, Math.floor(maxReadBytes / pageBytes)))
    const file = await this.#opened()
    const bytes = new Uint8Array((to - from) * pageBytes)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, this.#kv.placeOf(from))
    return { from, to, bytes: bytes.subarray(0, bytesRead) }
  }

  async #opened(): Promise<FileHandle> {
    if (this.#file) return this.#file
    const { path, head } = this.#kv
    const file = await open(path, this.#isThere ? constants.O_RDWR | (constants.O_NOFOLLOW ?? 0) : 'w+', 0o600)
    this.#file = file
    if (this.#isThere) return file
    this.#isThere = true
    const { bytesWritten } = await file.write(head, 0, head.length, 0)
    if (bytesWritten < head.length) throw new Error(`only ${bytesWritten} bytes of the head of ${path} were written`)
    return file
  }
}
