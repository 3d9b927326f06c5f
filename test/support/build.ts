import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statfsSync } from 'node:fs'

/** Brings dist/, which the tests run, up to date. Errors in types are printed, and the tests run all the same. */
export function setup(): void {
  spawnSync('node_modules/.bin/tsc', ['-b'], { stdio: 'inherit' })
  spawnSync('npm', ['run', '-s', 'page'], { stdio: 'inherit' })
  if (process.env.TMPDIR === undefined && hasRoomInMemory()) process.env.TMPDIR = memoryFolder
}

const memoryFolder = '/dev/shm'
/** Several times what the temporary folders of a run hold at once. */
const roomBytes = 6 * 2 ** 30

/**
 * Temporary folders are in memory where there is room: tests create some thousand databases, and a disk that others use too takes
 * 50 ms for each. Programs are run from there, which containers often forbid.
 */
function hasRoomInMemory(): boolean {
  if (!existsSync(memoryFolder)) return false
  const { bavail, bsize } = statfsSync(memoryFolder)
  const options = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .find(([, folder]) => folder === memoryFolder)?.[3]
  return bavail * bsize >= roomBytes && options !== undefined && !options.split(',').includes('noexec')
}
