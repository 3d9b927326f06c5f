import { spawn } from 'node:child_process'
import { fstatSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { tempDir } from '../support/temp-dir.ts'

const cli = fileURLToPath(new URL('../../dist/brim.js', import.meta.url))
const bundle = await ensureDemoBundle()

/** The log of an agent whose bridge does not respond, once it has lines. @param isJournal whether stderr is the stream that JOURNAL_STREAM names */
async function logOf(args: readonly string[], isJournal = false): Promise<string[]> {
  using dir = tempDir()
  const file = join(dir.path, 'log')
  const fd = openSync(file, 'a')
  const { dev, ino } = fstatSync(fd)
  const address = [
    '--id',
    'jetson-01',
    '--bridge',
    'mqtt://127.0.0.1:1',
    '--api-port',
    '0',
    '--state-dir',
    join(dir.path, 'state'),
  ]
  const child = spawn(process.execPath, [cli, 'agent', 'run', '--bundle', bundle, ...address, ...args], {
    stdio: ['ignore', 'ignore', fd],
    env: { ...process.env, JOURNAL_STREAM: `${dev}:${isJournal ? ino : ino + 1}` },
  })
  const ended = new Promise((resolve) => child.once('close', resolve))
  const log = () => readFileSync(file, 'utf8')
  try {
    await expect.poll(log).toContain('unreachable, retrying')
  } finally {
    child.kill('SIGKILL')
    await ended
  }
  return log().split('\n').slice(0, -1)
}

it('logs JSON by default, without stacks where a bridge does not respond', async () => {
  const lines = (await logOf([])).map((line) => JSON.parse(line))
  const line = lines.find(({ msg }) => msg.endsWith('unreachable, retrying'))
  expect(line).toMatchObject({
    level: 40,
    device: 'jetson-01',
    err: { code: 'BROKER_UNREACHABLE', message: expect.stringContaining('127.0.0.1:1') },
  })
  expect(JSON.stringify(lines)).not.toContain('"stack"')
})

it('logs text, with the priority of each line where journald reads it', async () => {
  const lines = await logOf(['--log-format', 'text'], true)
  expect(lines.join('\n')).toMatch(/^<4>\S+Z WARN {2}link: .*unreachable, retrying .*\[BROKER_UNREACHABLE\]; why: /m)
  for (const line of lines) expect(line).toMatch(/^<[2-7]>/)
})

it('logs no priorities where stderr is not the stream of journald', async () => {
  for (const line of await logOf(['--log-format', 'text'])) expect(line).toMatch(/^\d{4}-/)
})
