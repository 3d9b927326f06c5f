import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { run } from '../../../../brim.ts'
import { type Shell, shells } from '../../../../core/kit/cli/completion.ts'
import { captureIo } from '../../../support/captured-io.ts'

const folder = mkdtempSync(join(tmpdir(), 'brim-completion-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function scriptOf(shell: Shell): Promise<string> {
  const { io, out } = captureIo()
  expect(await run(['completion', shell], io)).toBe(0)
  const file = join(folder, shell)
  writeFileSync(file, out())
  return file
}

const isInstalled = (program: string) => spawnSync(program, ['-c', 'true']).status === 0

describe.each(shells.map((shell) => [shell]))('the script for %s', (shell) => {
  if (!isInstalled(shell)) console.log(`skipped: ${shell} is not installed`)
  it.skipIf(!isInstalled(shell))('has no syntax error', async () => {
    const { status, stderr } = spawnSync(shell, ['-n', await scriptOf(shell)], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })
})

describe.skipIf(!isInstalled('bash'))('completion in bash', async () => {
  const script = await scriptOf('bash')
  /** @param line up to the cursor */
  const complete = (line: string) => {
    const words = line.split(' ').map((word) => `'${word}'`)
    const program = `source ${script}; COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _brim; printf '%s\\n' "\${COMPREPLY[@]}"`
    return execFileSync('bash', ['--norc', '-c', program], { encoding: 'utf8' }).split('\n').filter(Boolean)
  }

  it.each([
    ['brim de', ['device', 'demo']],
    ['brim bridge to', ['token']],
    ['brim bridge token ', ['create', 'list', 'revoke']],
    ['brim --json fleet s', ['status']],
    ['brim completion ', ['bash', 'zsh', 'fish']],
    ['brim job list --sta', ['--state']],
    ['brim job list --state RUN', ['RUNNING']],
    ['brim job list --state RUNNING --ki', ['--kind']],
    ['brim job submit slm.', ['slm.generate']],
    ['brim model build ./checkpoint --forc', ['--force']],
    ['brim agent run --no-dr', ['--no-draft-ahead']],
    ['brim model build ', []],
    ['brim agent run --bundle ', []],
    ['brim device show jetson', []],
  ])('%s', (line, words) => {
    expect(complete(line)).toEqual(words)
  })
})

it('completes every command and option in fish', async () => {
  const { io, out } = captureIo()
  expect(await run(['completion', 'fish'], io)).toBe(0)
  const lines = out().split('\n')
  const has = (...parts: string[]) =>
    lines.some((line) => line.startsWith('complete -c brim ') && parts.every((part) => line.includes(part)))
  expect(has(`'test (__brim_command) = "bridge token"' -f -a revoke`)).toBe(true)
  expect(has('= "job list"', '-l state', `-x -a 'QUEUED SENT`)).toBe(true)
  expect(has('= "model build"', '-l out -r')).toBe(true)
})
