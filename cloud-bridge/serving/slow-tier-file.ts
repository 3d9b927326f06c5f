import { mkdirSync, rmSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { sampledWarnings, type Warn } from '../../core/kit/base/sampled-warnings.ts'
import { SerialQueue } from '../../core/model/engine/serial-queue.ts'
import { pageRows } from '../../core/policy/serving/write-through.ts'
import { PagePool } from './page-pool.ts'
import { fullValuesOf, type Page, type SlowCopy, type SlowTier } from './slow-tier.ts'
import { TierBudget } from './tier-budget.ts'

export interface FileTierOptions {
  /** What an earlier process left there is deleted. */
  readonly folder: string
  readonly budgetBytes: number
  readonly clock: Clock
  readonly logger: Logger
}

/** After a failed write the tier refuses pages for this long: a full or broken disk is not tried again at every step. */
const pauseMs = 1_000
/** Of a page in its file, before its values. */
const headBytes = 8

/**
 * The slow tier in files, one for each stream. Every page has a checksum, which begins with the file's random number, so that
 * no other file's or page's bytes pass for it.
 * @throws the system's error where the folder cannot be created
 */
export function fileTier({ folder, budgetBytes, clock, logger }: FileTierOptions): SlowTier {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const budget = new TierBudget(budgetBytes)
  const disk = new Disk(clock, sampledWarnings(logger, clock))
  const copies = new Set<FileCopy>()
  const pool = new PagePool()
  let opened = 0
  return {
    usage: budget,
    allocate: (values) => pool.acquire(values),
    releaseFree: () => pool.releaseFree(),
    open() {
      opened += 1
      const path = join(folder, `${opened}.kv`)
      const copy = new FileCopy(path, { budget, disk, pool }, () => copies.delete(copy))
      copies.add(copy)
      return copy
    },
    async close() {
      await Promise.all([...copies].map((copy) => copy.release()))
      rmSync(folder, { recursive: true, force: true })
    },
  }
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

/** The pages of one stream in a file, each at a fixed place: uint32 rows, uint32 checksum, values. */
class FileCopy implements SlowCopy {
  readonly #path: string
  readonly #budget: TierBudget
  readonly #disk: Disk
  /** Of pages until they are written. */
  readonly #pool: PagePool
  readonly #onRelease: () => void
  readonly #queue = new SerialQueue()
  readonly #seed = nextSeed()
  #file: FileHandle | undefined
  #releasing: Promise<void> | undefined
  /** Of a full page; known from the first one on. */
  #pageBytes = 0
  /** Places in the file. */
  #pages = 0

  constructor(
    path: string,
    { budget, disk, pool }: { readonly budget: TierBudget; readonly disk: Disk; readonly pool: PagePool },
    onRelease: () => void,
  ) {
    this.#path = path
    this.#budget = budget
    this.#disk = disk
    this.#pool = pool
    this.#onRelease = onRelease
  }

  get bytes(): number {
    return this.#pages * this.#pageBytes
  }

  async save(at: number, page: Page): Promise<boolean> {
    this.#pageBytes ||= headBytes + fullValuesOf(page) * Float32Array.BYTES_PER_ELEMENT
    try {
      if (this.#disk.isPaused || !this.#chargePages(at + 1)) return false
      return await this.#queue.run(() => this.#write(at, page).then(() => true, this.#disk.onFailedWrite))
    } finally {
      this.#pool.recycle(page)
    }
  }

  load(at: number): Promise<Page | undefined> {
    return this.#queue.run(() => this.#read(at).catch(this.#disk.onFailedRead))
  }

  release(): Promise<void> {
    this.#releasing ??= this.#queue.run(async () => {
      await this.#file?.close().catch(this.#disk.onFailedWrite)
      await rm(this.#path, { force: true }).catch(this.#disk.onFailedWrite)
      this.#budget.free(this.bytes)
      this.#pages = 0
      this.#onRelease()
    })
    return this.#releasing
  }

  #chargePages(pages: number): boolean {
    const more = pages - this.#pages
    if (more <= 0) return true
    if (!this.#budget.charge(more * this.#pageBytes)) return false
    this.#pages = pages
    return true
  }

  async #write(at: number, { rows, values }: Page): Promise<void> {
    const head = Uint32Array.of(rows, this.#checksum(at, rows, values))
    this.#file ??= await open(this.#path, 'w+', 0o600)
    const { bytesWritten } = await this.#file.writev([head, values], at * this.#pageBytes)
    if (bytesWritten < headBytes + values.byteLength) throw new Error(`only ${bytesWritten} bytes of a page were written`)
  }

  async #read(at: number): Promise<Page> {
    const bytes = new ArrayBuffer(this.#pageBytes)
    const read = await this.#file?.read(new Uint8Array(bytes), 0, bytes.byteLength, at * bytes.byteLength)
    if ((read?.bytesRead ?? 0) < headBytes) throw new Error(`page ${at} is missing`)
    const [rows = 0, checksum] = new Uint32Array(bytes, 0, 2)
    const valueBytes = ((bytes.byteLength - headBytes) / pageRows) * rows
    if (!(rows > 0 && rows <= pageRows && headBytes + valueBytes <= (read?.bytesRead ?? 0)))
      throw new Error(`page ${at} is incomplete`)
    const values = new Float32Array(bytes, headBytes, valueBytes / 4)
    if (checksum !== this.#checksum(at, rows, values)) throw new Error(`the checksum of page ${at} is wrong`)
    return { rows, values }
  }

  #checksum(at: number, rows: number, values: Float32Array): number {
    const place = Uint32Array.of(this.#seed, at, rows)
    return crc32(bytesOf(values), crc32(bytesOf(place)))
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array | Uint32Array) => new Uint8Array(buffer, byteOffset, byteLength)
