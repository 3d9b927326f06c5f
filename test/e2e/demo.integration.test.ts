import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { portIsFree } from '../../core/kit/base/port-is-free.ts'
import { isMissing } from '../support/prerequisites.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const cli = fileURLToPath(new URL('../../dist/brim.js', import.meta.url))
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** `brim demo …` as a process with its own temporary folder, in which leftover files would be found. */
function startDemo(...args: string[]) {
  const temporary = mkdtempSync(join(tmpdir(), 'brim-test-'))
  folders.push(temporary)
  const child = spawn(process.execPath, [cli, 'demo', ...args], { cwd: root, env: { ...process.env, TMPDIR: temporary } })
  let out = ''
  let err = ''
  child.stdout.on('data', (bytes: Buffer) => {
    out += bytes.toString()
  })
  child.stderr.on('data', (bytes: Buffer) => {
    err += bytes.toString()
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)))
  return { child, ended, temporary, out: () => out, err: () => err }
}

/** Processes whose command line contains this folder. */
function processesOf(temporary: string): string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(temporary)
      } catch {
        return false
      }
    })
}

// What it answers and prints: test/scripts/packaging/archive.integration.test.ts, from an archive.
describe('brim demo', () => {
  it('cleans up and exits with 130 on Ctrl-C', async () => {
    const isFree = new Map<number, boolean>()
    for (const port of [7070, 7071]) isFree.set(port, await portIsFree(port))
    const demo = startDemo('--keep', '--max-tokens', '1')
    await expect.poll(() => demo.err(), { timeout: 60_000 }).toContain('press Ctrl-C to stop')
    expect(demo.err()).toContain('curl')
    // One token has no time between tokens.
    expect(demo.out()).toMatch(/no network +whole +1 .*–/)
    expect(demo.out()).not.toContain('NaN')
    const commands = demo
      .err()
      .split('\n')
      .filter((line) => /^ {2}(bin\/brim|curl) /.test(line))
    expect(commands).toHaveLength(5)
    for (const command of commands) {
      const { status, stdout, stderr } = spawnSync('bash', ['-c', command], { cwd: root, encoding: 'utf8' })
      expect([status, command, stderr]).toEqual([0, command, expect.not.stringContaining('error')])
      expect(stdout, command).toMatch(/./)
    }
    // Each has a default: where it was free, commands without an address work too.
    for (const [port, url] of [
      [7070, 'bridge'],
      [7071, 'jetson-01'],
    ] as const)
      if (isFree.get(port)) expect(demo.err()).toMatch(new RegExp(`^${url} +http://127.0.0.1:${port}`, 'm'))
    demo.child.kill('SIGINT')
    expect(await demo.ended).toBe(130)
    expect(readdirSync(demo.temporary)).toEqual([])
    expect(processesOf(demo.temporary)).toEqual([])
  }, 120_000)

  it.skipIf(isMissing('/proc, which lists processes', existsSync('/proc/self/cmdline')))(
    'leaves no process behind after SIGKILL',
    async () => {
      const demo = startDemo('--keep', '--max-tokens', '1')
      await expect.poll(() => demo.err(), { timeout: 60_000 }).toContain('press Ctrl-C to stop')
      expect(processesOf(demo.temporary).length).toBeGreaterThanOrEqual(3)
      demo.child.kill('SIGKILL')
      await expect.poll(() => processesOf(demo.temporary)).toEqual([])
    },
    120_000,
  )
})
