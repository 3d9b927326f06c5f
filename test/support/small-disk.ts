import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from './temp-dir.ts'

/** A file system of its own that can be filled to its last byte. */
export interface SmallDisk extends Disposable {
  readonly path: string
  fill(): void
  free(): void
}

const mounted = (path: string, mib: number) =>
  spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m,mode=700`, 'tmpfs', path], { stdio: 'ignore' }).status === 0
const unmount = (path: string) => spawnSync('umount', ['--lazy', path], { stdio: 'ignore' })

/** Why a test cannot mount a file system; undefined: it can. */
export function mountMissing(): string | undefined {
  if (process.platform !== 'linux') return 'needs Linux'
  using dir = tempDir()
  if (process.getuid?.() !== 0 || !mounted(dir.path, 1)) return 'may not mount a tmpfs'
  unmount(dir.path)
  return undefined
}

export function smallDisk(mib: number): SmallDisk {
  const dir = tempDir()
  if (!mounted(dir.path, mib)) throw new Error('the tmpfs was not mounted')
  const filling = join(dir.path, 'filling')
  const path = join(dir.path, 'state')
  mkdirSync(path, { mode: 0o700 })
  return {
    path,
    fill() {
      const file = openSync(filling, 'a')
      for (let bytes = 65_536; bytes >= 1; bytes = Math.floor(bytes / 2)) while (isWritten(file, bytes));
      closeSync(file)
    },
    free: () => rmSync(filling, { force: true }),
    [Symbol.dispose]() {
      unmount(dir.path)
      dir[Symbol.dispose]()
    },
  }
}

function isWritten(file: number, bytes: number): boolean {
  try {
    return writeSync(file, Buffer.alloc(bytes)) === bytes
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false
    throw error
  }
}
