import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'

const setup = fileURLToPath(new URL('../scripts/setup', import.meta.url))
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** Runs scripts/setup with a PATH of common tools and the given programs. */
async function runSetup(programs: Record<string, string>): Promise<{ code: number; stderr: string }> {
  const bin = mkdtempSync(join(tmpdir(), 'brim-path-'))
  folders.push(bin)
  mkdirSync(bin, { recursive: true })
  for (const tool of ['bash', 'env', 'dirname', 'uname', 'id', 'cat', 'cksum']) symlinkSync(await which(tool), join(bin, tool))
  for (const [name, script] of Object.entries(programs)) writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  try {
    await promisify(execFile)(setup, { env: { PATH: bin } })
    return { code: 0, stderr: '' }
  } catch (error) {
    const { code, stderr } = error as { code: number; stderr: string }
    return { code, stderr }
  }
}

const which = async (tool: string) => (await promisify(execFile)('sh', ['-c', `command -v ${tool}`])).stdout.trim()

describe('scripts/setup prints one line about a missing prerequisite and exits with 2', () => {
  it.each([
    ['node is missing', {}, 'node was not found'],
    ['node is too old', { node: 'case "$1" in --version) echo v18.19.0;; *) exit 1;; esac' }, 'node v18.19.0 is too old'],
    ['node is broken', { node: 'exit 127' }, 'too old; Brim needs 20.19'],
    ['npm is missing', { node: 'exit 0' }, 'npm was not found'],
    ['npm is broken', { node: 'exit 0', npm: 'exit 1' }, 'npm was not found or does not run'],
  ])('%s', async (_, programs, message) => {
    const { code, stderr } = await runSetup(programs)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
    expect(stderr.trim().split('\n')).toHaveLength(1)
    expect(stderr).toContain('[PREREQUISITE_MISSING]')
  })
})
