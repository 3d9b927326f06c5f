import { chmodSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Clock } from '../../core/kit/base/clock.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import type { Warn } from '../../core/kit/base/sampled-warnings.ts'
import { SerialQueue } from '../../core/model/engine/serial-queue.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import { KvFile } from './kv-file.ts'
import type { PageOwner } from './page-keys.ts'
import type { TierBudget } from './tier-budget.ts'

export interface LeftFilesOptions {
  readonly folder: string
  /** A file is deleted after this long without use; 0: nothing is left. */
  readonly keepMs: number
  /** Of all files of one client. */
  readonly clientBytes: number
  /** Files of others are of no use, and deleted. */
  readonly models: readonly string[]
}

const expireEveryMs = 1_000

interface Left {
  readonly file: KvFile
  readonly of: PageOwner
  readonly sinceMs: number
}

/** Files of closed streams, and of those that a stopped or killed process had, by what they begin with. They give way to others. */
export class LeftFiles {
  readonly #options: LeftFilesOptions
  readonly #budget: TierBudget
  readonly #clock: Clock
  readonly #warn: Warn
  /** Oldest first. */
  readonly #left = new Set<Left>()
  readonly #deletions = new SerialQueue()
  readonly #stopExpiry: () => Promise<void>

  /** @throws the system's error where the folder cannot be created */
  constructor(options: LeftFilesOptions, budget: TierBudget, clock: Clock, warn: Warn) {
    this.#options = options
    this.#budget = budget
    this.#clock = clock
    this.#warn = warn
    const { folder, keepMs } = options
    if (keepMs === 0) rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    chmodSync(folder, 0o700)
    this.#adopt()
    this.#stopExpiry = keepMs === 0 ? async () => {} : repeatEvery(clock, expireEveryMs, () => this.#expire())
  }

  /** The highest number that a file has as its name. */
  get lastNumber(): number {
    let last = 0
    for (const { file } of this.#left) last = Math.max(last, Number.parseInt(basename(file.path), 10) || 0)
    return last
  }

  /** @returns whether the file stays; otherwise it is the caller's to delete */
  add(file: KvFile): boolean {
    const { of } = file
    if (!of || file.keys.length === 0 || this.#options.keepMs === 0) return false
    // What the file goes on from.
    this.#deleteWhere((other) => isOf(other, of) && sharedPages(other.file, file.keys) === other.file.keys.length)
    this.#left.add({ file, of, sinceMs: this.#clock.nowMs() })
    this.#keepWithinShare(clientOf(of.owner))
    return true
  }

  /** The file that holds most of the first pages, and how many. */
  find(of: PageOwner, keys: readonly string[]): { readonly file: KvFile; readonly pages: number } | undefined {
    let best: { readonly file: KvFile; readonly pages: number } | undefined
    for (const left of this.#left) {
      if (!isOf(left, of)) continue
      const pages = sharedPages(left.file, keys)
      if (pages > (best?.pages ?? 0)) best = { file: left.file, pages }
    }
    return best
  }

  /** The file is the caller's. */
  remove(file: KvFile): void {
    for (const left of this.#left) if (left.file === file) this.#left.delete(left)
  }

  /** Deletes the oldest files until the budget has so many bytes. @returns false where there are not enough of them */
  makeRoom(bytes: number): boolean {
    const { usedBytes, budgetBytes } = this.#budget
    let missingBytes = usedBytes + bytes - budgetBytes
    const oldest: Left[] = []
    for (const left of this.#left) {
      if (missingBytes <= 0) break
      oldest.push(left)
      missingBytes -= left.file.bytes
    }
    if (missingBytes > 0) return false
    for (const left of oldest) this.#delete(left)
    return true
  }

  purge(isOwned: (owner: string) => boolean): void {
    this.#deleteWhere(({ of }) => isOwned(of.owner))
  }

  async close(): Promise<void> {
    await this.#stopExpiry()
    await this.#deletions.idle()
    if (this.#left.size === 0) rmSync(this.#options.folder, { recursive: true, force: true })
  }

  #adopt(): void {
    const { folder, keepMs, models } = this.#options
    const found: { readonly file: KvFile; readonly of: PageOwner; readonly ageMs: number }[] = []
    for (const name of readdirSync(folder)) {
      const path = join(folder, name)
      try {
        const { file, ageMs } = KvFile.read(path, Date.now())
        const { of } = file
        if (of && models.includes(of.model) && file.keys.length > 0 && ageMs < keepMs) found.push({ file, of, ageMs })
        else rmSync(path)
      } catch {
        rmSync(path, { recursive: true, force: true })
      }
    }
    // A file may be larger than what the budget has left.
    for (const { file, of, ageMs } of found.toSorted((a, b) => a.ageMs - b.ageMs)) {
      if (!this.#budget.charge(file.bytes)) {
        rmSync(file.path)
        continue
      }
      this.#left.add({ file, of, sinceMs: this.#clock.nowMs() - ageMs })
    }
    const oldestFirst = [...this.#left].reverse()
    this.#left.clear()
    for (const left of oldestFirst) this.#left.add(left)
    for (const { of } of oldestFirst) this.#keepWithinShare(clientOf(of.owner))
  }

  #keepWithinShare(client: string): void {
    const own = [...this.#left].filter(({ of }) => clientOf(of.owner) === client)
    let bytes = own.reduce((sum, { file }) => sum + file.bytes, 0)
    for (const left of own) {
      if (bytes <= this.#options.clientBytes) return
      bytes -= left.file.bytes
      this.#delete(left)
    }
  }

  #expire(): void {
    const endedMs = this.#clock.nowMs() - this.#options.keepMs
    this.#deleteWhere(({ sinceMs }) => sinceMs <= endedMs)
  }

  #deleteWhere(isDeleted: (left: Left) => boolean): void {
    for (const left of this.#left) if (isDeleted(left)) this.#delete(left)
  }

  #delete(left: Left): void {
    this.#left.delete(left)
    this.#budget.free(left.file.bytes)
    void this.#deletions.run(() => rm(left.file.path, { force: true }).catch((err) => this.#warn({ err }, 'KV file not deleted')))
  }
}

const isOf = ({ of }: Left, { model, owner }: PageOwner) => of.owner === owner && of.model === model

function sharedPages({ keys: own }: KvFile, keys: readonly string[]): number {
  const most = Math.min(own.length, keys.length)
  let pages = 0
  while (pages < most && own[pages] === keys[pages]) pages++
  return pages
}
