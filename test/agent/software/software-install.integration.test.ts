import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { run as brim } from '../../../brim.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { newSigningKey, readSigner } from '../../../core/wire/signing/signature.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { captureIo } from '../../support/captured-io.ts'
import { sha256Of } from '../../support/sha256-of.ts'
import { tempDir } from '../../support/temp-dir.ts'

// A bridge, and an agent process that the real jetson/launch starts again and again, as a service does.
const dir = tempDir()
const state = join(dir.path, 'state')
const config = join(dir.path, 'agent.yaml')
const keyFile = join(dir.path, 'release.key')
const adminKey = join(dir.path, 'admin.key')
const root = fileURLToPath(projectRoot)
const platform = `linux-${process.arch}`
let bridge: TestBridge
let agent: ChildProcess
let isOver = false
const exits: (number | string | null)[] = []

function startService(): void {
  const env = { PATH: process.env.PATH, HOME: dir.path, STATE_DIRECTORY: state, BRIM_STOP_WITH_STDIN: '1' }
  agent = spawn(join(root, 'jetson/launch'), ['agent', 'run', '--config', config], { env, stdio: ['pipe', 'ignore', 'ignore'] })
  agent.once('close', (code, signal) => {
    exits.push(code ?? signal)
    if (!isOver) startService()
  })
}

beforeAll(async () => {
  const bundle = await buildTextBundle(dir.path, { adapter: false })
  const bundles = join(dir.path, 'bundles')
  mkdirSync(bundles)
  bridge = await startTestBridge({ bundle, bundles, stateDir: join(dir.path, 'bridge'), chunkTokens: 16 })
  const key = await operator(
    'bridge',
    'key',
    'create',
    '--name',
    'sam',
    '--role',
    'admin',
    '--state-dir',
    join(dir.path, 'bridge'),
  )
  writeFileSync(adminKey, key, { mode: 0o600 })
  writeFileSync(keyFile, newSigningKey(), { mode: 0o600 })
  const lines = [
    'id: jetson-01',
    `bundle: ${bundle}`,
    `bridge: ${bridge.mqttUrl}`,
    'api-port: 0',
    `state-dir: ${state}`,
    `trusted-key: ${readSigner(keyFile).publicKey}`,
    'limit: [healthBridgeS=3, healthSoakS=1]',
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  startService()
}, 60_000)

afterAll(async () => {
  isOver = true
  agent.kill('SIGKILL')
  await bridge.close()
  dir[Symbol.dispose]()
})

/** Runs a command of the bridge's operator. @returns what it prints */
async function operator(...words: string[]): Promise<string> {
  const { io, out, err } = captureIo({ env: { HOME: dir.path } })
  expect(await brim(words, io), err()).toBe(0)
  return out()
}

/** An archive of a release whose agent is this checkout's. @param more words of the command line that it adds */
async function release(version: string, more = '', { printed = version, isSigned = true, sequence = 1 } = {}): Promise<string> {
  const name = `brim-${version}-${platform}`
  const folder = join(dir.path, name)
  mkdirSync(join(folder, 'bin'), { recursive: true })
  writeFileSync(join(folder, 'release.json'), JSON.stringify({ version, platform }))
  const script = `#!/bin/sh\n[ "$1" = --version ] && exec echo ${printed}\nexec ${join(root, 'bin/brim')} "$@" ${more}\n`
  writeFileSync(join(folder, 'bin/brim'), script)
  chmodSync(join(folder, 'bin/brim'), 0o755)
  const archive = `${folder}.tar.gz`
  execFileSync('tar', ['-czf', archive, '-C', dir.path, basename(folder)])
  const sha256 = sha256Of(archive)
  const key = join(dir.path, 'other.key')
  if (!isSigned) writeFileSync(key, newSigningKey(), { mode: 0o600 })
  const signatures = [readSigner(isSigned ? keyFile : key).sign('software', sha256, sequence)]
  writeFileSync(`${archive}.sig.json`, JSON.stringify({ v: 1, signatures }))
  await operator('bundle', 'push', archive, '--bridge', bridge.httpUrl, '--key-file', adminKey)
  return sha256
}

interface Ended {
  state: string
  result: Record<string, unknown> | null
  error: { code: string; message: string } | null
}

async function submit(version: string, archiveSha256: string, fields: object = {}): Promise<string> {
  const submission = {
    kind: 'software.install',
    device: 'jetson-01',
    input: { version, archiveSha256, probe: { prompt: 'Hello' }, ...fields },
    timeouts: { acceptS: 2 },
  }
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${readFileSync(adminKey, 'utf8').trim()}` }
  const post = { method: 'POST', headers, body: JSON.stringify(submission) }
  return ((await (await fetch(`${bridge.httpUrl}/v1/jobs`, post)).json()) as { id: string }).id
}

async function ended(id: string): Promise<Ended> {
  let job: Ended = { state: '', result: null, error: null }
  const end = /SUCCEEDED|FAILED|REJECTED|TIMED_OUT/
  const read = async () => {
    job = (await (await fetch(`${bridge.httpUrl}/v1/jobs/${id}`)).json()) as Ended
    return job.state
  }
  await expect.poll(read, { timeout: 40_000, interval: 100 }).toMatch(end)
  return job
}

const current = () => basename(readlinkSync(join(state, 'releases/current')))

it('refuses what is not signed by a trusted key, is another release, or does not start here', async () => {
  const device = async () => (await fetch(`${bridge.httpUrl}/v1/devices/jetson-01`)).status
  await expect.poll(device).toBe(200)
  const foreign = await ended(await submit('9.0.0', await release('9.0.0', '', { isSigned: false })))
  expect(foreign).toMatchObject({ state: 'REJECTED', error: { code: 'SIGNATURE_INVALID' } })
  const other = await ended(await submit('9.0.5', await release('9.0.1')))
  expect(other.error).toMatchObject({ code: 'RELEASE_INVALID', message: expect.stringContaining('release 9.0.1') })
  const dead = await ended(await submit('9.0.2', await release('9.0.2', '', { printed: 'nothing' })))
  expect(dead.error).toMatchObject({ code: 'RELEASE_INVALID', message: expect.stringContaining('it printed nothing') })
  expect(exits).toEqual([])
  expect(readdirSync(join(state, 'releases/.partial'))).toEqual([])
}, 60_000)

it('returns to the release before where the new one has no bridge', async () => {
  const job = await ended(await submit('9.1.0', await release('9.1.0', '--bridge mqtt://127.0.0.1:9')))
  expect(job).toMatchObject({ state: 'REJECTED', error: { code: 'HEALTH_CHECK_FAILED' } })
  expect(job.error?.message).toContain('no bridge was connected within 3 s')
  expect(exits).toEqual([75, 75])
  expect(current).toThrow('ENOENT')
}, 60_000)

it('returns to the release before where the new one dies again and again after it was ready', async () => {
  const seen = async () => {
    const device = (await (await fetch(`${bridge.httpUrl}/v1/devices/jetson-01`)).json()) as { state: string; birth: number }
    return device.state === 'ready' ? device.birth : 0
  }
  const before = await seen()
  const job = await submit('9.1.5', await release('9.1.5', '--limit healthSoakS=600'))
  let last = before
  for (let start = 1; start <= 3; start++) {
    await expect.poll(seen, { interval: 50 }).toBeGreaterThan(last)
    last = await seen()
    agent.kill('SIGKILL')
  }
  expect(await ended(job)).toMatchObject({ state: 'REJECTED', error: { code: 'HEALTH_CHECK_FAILED' } })
  expect(exits.splice(2)).toEqual([75, 'SIGKILL', 'SIGKILL', 'SIGKILL'])
  expect(current).toThrow('ENOENT')
}, 60_000)

it('keeps a release that is healthy, although it is killed on trial', async () => {
  const sha256 = await release('9.2.0', '', { sequence: 7 })
  const job = await submit('9.2.0', sha256)
  await expect.poll(() => exits.length).toBe(3)
  agent.kill('SIGKILL')
  expect(await ended(job)).toMatchObject({ state: 'SUCCEEDED', result: { version: '9.2.0', archiveSha256: sha256 } })
  expect(exits).toEqual([75, 75, 75, 'SIGKILL'])
  expect(current()).toBe(`9.2.0-${sha256.slice(0, 8)}`)
  // Another job for the same release has nothing to do.
  expect(await ended(await submit('9.2.0', sha256))).toMatchObject({ state: 'SUCCEEDED' })
  expect(exits).toHaveLength(4)
}, 60_000)

it('goes back to a lower number only where an admin allows it', async () => {
  const older = await release('9.1.9', '', { sequence: 6 })
  expect(await ended(await submit('9.1.9', older))).toMatchObject({
    state: 'REJECTED',
    error: { code: 'DOWNGRADE_REFUSED', message: expect.stringContaining('has the number 6, but this device has had 7') },
  })
  expect(exits).toHaveLength(4)
  expect((await ended(await submit('9.1.9', older, { allowDowngrade: true }))).state).toBe('SUCCEEDED')
  expect(current()).toBe(`9.1.9-${older.slice(0, 8)}`)
}, 60_000)
