import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { tinyCheckpoint } from '../../../support/checkpoint.ts'
import { isMissing } from '../../../support/prerequisites.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

/** The user `nobody`, because root writes to read-only folders too. */
const otherUser = 65_534

const dir = shared(tempDir)
let checkpoint: string
beforeAll(async () => {
  checkpoint = await tinyCheckpoint(join(dir.path, 'checkpoint'))
})

describe('a target that cannot be written', () => {
  it('is rejected if its parent is a file', async () => {
    const file = join(dir.path, 'file')
    writeFileSync(file, 'a file, no folder')
    await expect(buildBundle({ checkpoint, out: join(file, 'bundle'), format: 'fp32' })).rejects.toMatchObject({
      code: 'TARGET_UNWRITABLE',
      message: expect.stringContaining(join(file, 'bundle')),
    })
  })

  it('is rejected if its parent folder is read-only', async () => {
    const locked = join(dir.path, 'locked')
    mkdirSync(locked)
    chmodSync(dir.path, 0o755)
    chmodSync(locked, 0o555)
    const isRoot = process.geteuid?.() === 0
    if (isRoot) process.seteuid?.(otherUser)
    try {
      await expect(buildBundle({ checkpoint, out: join(locked, 'bundle'), format: 'fp32' })).rejects.toMatchObject({
        code: 'TARGET_UNWRITABLE',
        message: expect.stringContaining(join(locked, 'bundle')),
      })
    } finally {
      if (isRoot) process.seteuid?.(0)
    }
  })
})

describe('a full disk', () => {
  it('is reported before the build if the weights cannot fit, and otherwise while writing', async ({ skip }) => {
    const disk = join(dir.path, 'disk')
    mkdirSync(disk)
    // The weights of the fp32 bundle have 650 kB; graphs and golden vectors 150 kB more.
    for (const [kilobytes, message] of [
      [400, /needs 0\.\d MB, its disk has 0\.\d MB free/],
      [720, /no space left while writing/],
    ] as const) {
      skip(isMissing('permission to mount a small disk', mountTmpfs(disk, kilobytes)))
      try {
        await expect(buildBundle({ checkpoint, out: join(disk, 'bundle'), split: 1, format: 'fp32' })).rejects.toMatchObject({
          code: 'DISK_FULL',
          message: expect.stringMatching(message),
        })
        expect(readdirSync(disk)).toEqual([])
      } finally {
        execFileSync('umount', [disk])
      }
    }
  })
})

function mountTmpfs(at: string, kilobytes: number): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${kilobytes}k`, 'brim-test', at], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
