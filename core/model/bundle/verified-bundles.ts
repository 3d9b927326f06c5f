import { readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { writePrivate } from '../../kit/base/private-file.ts'
import { verifyHashes } from './bundle.ts'
import type { Manifest } from './manifest.ts'

const fileName = 'verified-bundles.json'
/** Entries of each kind; the oldest are forgotten first. */
const maxEntries = 4_096

/** How an execution provider fared with parts of a bundle. */
const Trial = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('measured'), seconds: z.object({ provider: z.number().positive(), cpu: z.number().positive() }) }),
  z.object({ kind: z.literal('failed'), reason: z.string() }),
])
type Trial = z.infer<typeof Trial>

const Stored = z.object({
  /** By path: what identified the file when its hash was right. */
  files: z.record(z.string(), z.string()),
  /** Self-tests that this machine has passed. */
  tests: z.array(z.string()),
  /** How execution providers fared in their trials. */
  trials: z.record(z.string(), Trial).default({}),
})

/**
 * What this machine has verified of its bundles, in a file of the state folder, so that later starts read unchanged files
 * only once. Without a folder, or where the file cannot be read or written, everything is verified each time.
 */
export class VerifiedBundles {
  readonly #path: string | undefined
  readonly #files: Map<string, string>
  readonly #tests: Set<string>
  readonly #trials: Map<string, Trial>

  constructor(stateDir?: string) {
    this.#path = stateDir === undefined ? undefined : join(stateDir, fileName)
    const { files, tests, trials } = readStored(this.#path)
    this.#files = new Map(Object.entries(files))
    this.#tests = new Set(tests)
    this.#trials = new Map(Object.entries(trials))
  }

  /**
   * Checks the hashes of files that are new or have changed since this was last called.
   * @throws BrimError BUNDLE_CORRUPT naming the first file that differs from the manifest
   */
  async verifyFiles(folder: string, files: Manifest['files']): Promise<void> {
    let changed = false
    for (const file of files) {
      const path = resolve(folder, file.path)
      const before = await fingerprint(path, file.sha256)
      if (before !== undefined && this.#files.get(path) === before) continue
      this.#files.delete(path)
      await verifyHashes(folder, { files: [file] })
      // A file that changes while it is read is verified again next time.
      if (before !== undefined && before === (await fingerprint(path, file.sha256))) this.#files.set(path, before)
      changed = true
    }
    if (changed) this.#store()
  }

  /** @param test names everything that its outcome depends on */
  hasPassed(test: string): boolean {
    return this.#tests.has(test)
  }

  recordPassed(test: string): void {
    if (this.#tests.has(test)) return
    this.#tests.add(test)
    this.#store()
  }

  /** @param trial names everything that its outcome depends on */
  trialOf(trial: string): Trial | undefined {
    return this.#trials.get(trial)
  }

  recordTrial(trial: string, outcome: Trial): void {
    if (this.#trials.get(trial) === outcome) return
    this.#trials.set(trial, outcome)
    this.#store()
  }

  #store(): void {
    if (this.#path === undefined) return
    const files = Object.fromEntries([...this.#files].slice(-maxEntries))
    const trials = Object.fromEntries([...this.#trials].slice(-maxEntries))
    try {
      writePrivate(this.#path, JSON.stringify({ files, tests: [...this.#tests].slice(-maxEntries), trials }))
    } catch {
      // A full or read-only disk: the next start verifies again.
    }
  }
}

function readStored(path: string | undefined): z.infer<typeof Stored> {
  try {
    return Stored.parse(JSON.parse(readFileSync(path ?? '', 'utf8')))
  } catch {
    return { files: {}, tests: [], trials: {} }
  }
}

/** Changes with every write to the file, also with one that restores its modification time. Undefined: there is no such file. */
async function fingerprint(path: string, sha256: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  return found && [sha256, found.size, found.mtimeNs, found.ctimeNs, found.dev, found.ino].join(' ')
}
