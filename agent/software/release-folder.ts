import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import { makeFolder, renamePrivate, syncToDisk } from '../../core/kit/base/private-file.ts'

/** Links to the release that is started, the one before it, and the one on trial. `jetson/launch` reads them. */
type ReleaseLink = 'current' | 'previous' | 'trial'

/** Number of starts of the release on trial; `jetson/launch` counts. */
const startsFile = 'starts'
const partialFolder = '.partial'

const ReleaseFile = z.object({ version: z.string(), platform: z.string() })

/** For a program of a new release to print its version. */
const smokeTestMs = 60_000
const maxErrorChars = 400

/** The installed releases of the agent, each in a folder named after its version and the beginning of its archive's sha256. */
export class ReleaseFolder {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  has(release: string): boolean {
    return existsSync(join(this.path, release))
  }

  /** The download of an archive. */
  archiveOf(sha256: string): string {
    return join(this.path, partialFolder, `${sha256}.tar.gz`)
  }

  link(name: ReleaseLink): string | undefined {
    try {
      return readlinkSync(join(this.path, name))
    } catch {
      return undefined
    }
  }

  /** Atomically, and on disk on return. @param release undefined: removes the link */
  setLink(name: ReleaseLink, release: string | undefined): void {
    const link = join(this.path, name)
    if (release === undefined) {
      rmSync(link, { force: true })
      if (existsSync(this.path)) syncToDisk(this.path)
      return
    }
    makeFolder(this.path)
    const next = join(this.path, `.${name}.next`)
    rmSync(next, { force: true })
    symlinkSync(release, next)
    renamePrivate(next, link)
  }

  get trialStarts(): number {
    try {
      return Number.parseInt(readFileSync(join(this.path, startsFile), 'utf8'), 10) || 0
    } catch {
      return 0
    }
  }

  /** No release is on trial any longer. */
  endTrial(): void {
    this.setLink('trial', undefined)
    rmSync(join(this.path, startsFile), { force: true })
  }

  /**
   * Unpacks an archive beside the other releases, and tests that its program starts here. The folder appears in one step.
   * @throws BrimError RELEASE_INVALID, DISK_FULL; the signal's reason
   */
  async install(release: string, sha256: string, version: string, platform: string, signal: AbortSignal): Promise<void> {
    const to = join(this.path, partialFolder, release)
    await rm(to, { recursive: true, force: true })
    mkdirSync(to, { recursive: true, mode: 0o700 })
    try {
      const unpack = ['-xzf', this.archiveOf(sha256), '-C', to, '--strip-components=1', '--no-same-owner']
      const unpacked = await run('tar', unpack, signal)
      if (unpacked.code !== 0) throw unpackError(unpacked.errors)
      const found = readRelease(to)
      if (found?.version !== version || found.platform !== platform)
        throw new BrimError(
          'RELEASE_INVALID',
          `the archive holds ${found ? `release ${found.version} for ${found.platform}` : 'no release'}, not ${version} for ${platform}`,
          { hint: 'give the sha256 of the archive for this platform, as "brim rollout create software" does' },
        )
      await this.smokeTest(to, version, signal)
      // A power cut after the rename must not leave empty files behind.
      await run('sync', ['-f', to], signal)
      await rename(to, join(this.path, release))
      syncToDisk(this.path)
    } finally {
      await rm(to, { recursive: true, force: true })
      // A retry after an interruption needs it again; after any other failure it is of no use.
      if (!signal.aborted) await rm(this.archiveOf(sha256), { force: true })
    }
  }

  /** @throws BrimError RELEASE_INVALID if the program of the release does not start on this device */
  async smokeTest(folder: string, version: string, signal: AbortSignal): Promise<void> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(smokeTestMs)])
    const { code, output, errors } = await run(join(folder, 'bin/brim'), ['--version'], limited)
    signal.throwIfAborted()
    const isRight = code === 0 && output.trim().split('+', 1)[0] === version
    if (isRight) return
    const found = errors === '' ? `it printed ${output.slice(0, maxErrorChars) || 'nothing'}` : errors
    throw new BrimError('RELEASE_INVALID', `release ${version} does not start on this device: ${found}`, {
      hint: '"brim doctor" shows the C library of the device; docs/packages.md lists what an archive needs',
    })
  }

  /** Deletes what installations of other archives have left. */
  async removeOtherPartials(sha256: string): Promise<void> {
    const partials = join(this.path, partialFolder)
    for (const name of await readdir(partials).catch(() => []))
      if (join(partials, name) !== this.archiveOf(sha256)) await rm(join(partials, name), { recursive: true, force: true })
  }

  /** Deletes other releases, and what interrupted installations have left. @param kept names of folders */
  prune(kept: readonly (string | undefined)[]): void {
    for (const entry of existsSync(this.path) ? readdirSync(this.path, { withFileTypes: true }) : [])
      if (entry.isDirectory() && !entry.name.startsWith('.') && !kept.includes(entry.name))
        rmSync(join(this.path, entry.name), { recursive: true, force: true })
    rmSync(join(this.path, partialFolder), { recursive: true, force: true })
  }
}

function readRelease(folder: string): z.infer<typeof ReleaseFile> | undefined {
  try {
    return ReleaseFile.parse(JSON.parse(readFileSync(join(folder, 'release.json'), 'utf8')))
  } catch {
    return undefined
  }
}

function unpackError(errors: string): BrimError {
  return errors.includes('No space left')
    ? new BrimError('DISK_FULL', 'no space left while unpacking the release', { hint: 'free space on the device' })
    : new BrimError('RELEASE_INVALID', `the archive cannot be unpacked: ${errors}`, { hint: 'was it made by scripts/package?' })
}

interface Ended {
  readonly code: number | null
  readonly output: string
  /** The beginning of stderr, in one line. */
  readonly errors: string
}

/** Runs a program. Its failure to start, or its end by the signal, has code null. */
async function run(program: string, parameters: readonly string[], signal: AbortSignal): Promise<Ended> {
  const child = spawn(program, parameters, { stdio: ['ignore', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' })
  const failed = new Promise<string>((resolve) => child.on('error', (error) => resolve(error.message)))
  const closed = once(child, 'close').catch(() => [null])
  const [output, errors] = [text(child.stdout), text(child.stderr)].map((piped) => piped.catch(() => ''))
  const failure = await Promise.race([failed, closed.then(() => undefined)])
  await closed
  signal.throwIfAborted()
  const [code] = (await closed) as [number | null]
  const written = (failure ?? (await errors) ?? '').trim().replace(/\s*\n\s*/g, ' ')
  return { code: failure === undefined ? code : null, output: (await output) ?? '', errors: written.slice(0, maxErrorChars) }
}
