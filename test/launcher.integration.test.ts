import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { tempDir } from './support/temp-dir.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const launcher = join(root, 'bin/brim')

async function run(file: string, args: readonly string[], nodeArgs: readonly string[] = []) {
  const child = spawn(process.execPath, [...nodeArgs, file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code, out, err }
}

it('starts the command line, through a symbolic link too', async () => {
  expect(await run(launcher, ['--version'])).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+/), err: '' })
  using dir = tempDir()
  const link = join(dir.path, 'brim')
  symlinkSync(launcher, link)
  expect(await run(link, ['no-such-command'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('no-such-command'),
  })
})

it('prints one clear line under an old Node, and still its version', async () => {
  using dir = tempDir()
  const old = join(dir.path, 'old.cjs')
  writeFileSync(old, "Object.defineProperty(process.versions, 'node', { value: '18.19.0' })\n")
  const { code, err } = await run(launcher, ['agent', 'run'], ['--require', old])
  expect([code, err]).toEqual([2, expect.stringMatching(/^error: Node 18\.19\.0 is too old; Brim needs 20\.19 [^\n]*\n$/)])
  expect(await run(launcher, ['--version'], ['--require', old])).toMatchObject({ code: 0, err: '' })
})

it.each([
  ['the build is missing', () => {}, 'is not built'],
  [
    'a package is missing',
    (folder: string) => {
      mkdirSync(join(folder, 'dist'))
      writeFileSync(join(folder, 'dist/brim.js'), "import 'no-such-package'\n")
    },
    "Cannot find package 'no-such-package'",
  ],
])('names scripts/setup where %s', async (_, prepare, message) => {
  using dir = tempDir()
  cpSync(join(root, 'bin'), join(dir.path, 'bin'), { recursive: true })
  writeFileSync(join(dir.path, 'package.json'), '{ "type": "module" }\n')
  prepare(dir.path)
  const { code, err } = await run(join(dir.path, 'bin/brim'), ['doctor'])
  expect([code, err]).toEqual([2, expect.stringContaining(message)])
  expect(err).toContain('scripts/setup')
  expect(err.trim().split('\n')).toHaveLength(1)
})

it('ends with the npm that started it, whose shell does not pass signals on', async () => {
  // A bridge that never responds keeps the command running. The shell is between npm and it, as with `npx brim`.
  const bridge = createServer().listen(0, '127.0.0.1')
  await once(bridge, 'listening')
  const { port } = bridge.address() as AddressInfo
  const command = `"${process.execPath}" "${launcher}" whoami --bridge-url http://127.0.0.1:${port} & echo $!; wait`
  const shell = spawn('sh', ['-c', command], {
    env: { ...process.env, npm_command: 'exec' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const requested = once(bridge, 'request')
  const [pid] = await once(createInterface({ input: shell.stdout }), 'line')
  await requested
  expect(isRunning(Number(pid))).toBe(true)
  shell.kill('SIGKILL')
  await expect.poll(() => isRunning(Number(pid))).toBe(false)
  bridge.closeAllConnections()
  bridge.close()
})

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
