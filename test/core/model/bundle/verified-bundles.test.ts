import { createHash } from 'node:crypto'
import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { VerifiedBundles } from '../../../../core/model/bundle/verified-bundles.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const bytes = 8 * 2 ** 20

describe('verified bundles', () => {
  let dir: string
  let path: string
  let files: { path: string; bytes: number; sha256: string }[]

  beforeEach(() => {
    const temp = tempDir()
    onTestFinished(() => temp[Symbol.dispose]())
    dir = temp.path
    path = join(dir, 'input.weights')
    const content = Buffer.alloc(bytes, 7)
    writeFileSync(path, content)
    files = [{ path: 'input.weights', bytes, sha256: createHash('sha256').update(content).digest('hex') }]
  })

  const open = () => new VerifiedBundles(join(dir, 'state'))

  /** Changes one byte and restores the modification time. */
  function damage(): void {
    const { atime, mtime } = statSync(path)
    const content = readFileSync(path)
    content[1_000] = 8
    writeFileSync(path, content)
    utimesSync(path, atime, mtime)
  }

  it.skipIf(process.platform !== 'linux')('reads a file once over several starts', async () => {
    const readBytes = () => Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))![1])
    const cost = async () => {
      const before = readBytes()
      await open().verifyFiles(dir, files)
      return readBytes() - before
    }
    expect(await cost()).toBeGreaterThanOrEqual(bytes)
    expect(await cost()).toBeLessThan(bytes / 2)
  })

  it('finds one changed byte, whether it has verified the file before or not', async () => {
    const corrupt = { code: 'BUNDLE_CORRUPT', message: expect.stringContaining(path) }
    await open().verifyFiles(dir, files)
    damage()
    await expect(open().verifyFiles(dir, files)).rejects.toMatchObject(corrupt)
    await expect(open().verifyFiles(dir, files)).rejects.toMatchObject(corrupt)
    await expect(new VerifiedBundles().verifyFiles(dir, files)).rejects.toMatchObject(corrupt)
  })

  it('verifies an unchanged file again for a manifest that lists another hash', async () => {
    await open().verifyFiles(dir, files)
    const others = files.map((file) => ({ ...file, sha256: 'ab'.repeat(32) }))
    await expect(open().verifyFiles(dir, others)).rejects.toMatchObject({ code: 'BUNDLE_CORRUPT' })
  })

  it('remembers which self-tests have passed', () => {
    open().recordPassed('part input, library 1')
    expect(open().hasPassed('part input, library 1')).toBe(true)
    expect(open().hasPassed('part input, library 2')).toBe(false)
  })

  it('starts again where its file is damaged', async () => {
    await open().verifyFiles(dir, files)
    writeFileSync(join(dir, 'state', 'verified-bundles.json'), '{"files": 1')
    expect(open().hasPassed('part input')).toBe(false)
    await open().verifyFiles(dir, files)
  })
})
