import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isMissing } from '../support/prerequisites.ts'
import { tempDir } from '../support/temp-dir.ts'

const jetson = fileURLToPath(new URL('../../jetson', import.meta.url))
const temp = tempDir()
afterAll(() => temp[Symbol.dispose]())

/** An unpacked archive whose program does nothing. */
function archive(name: string, release: Record<string, unknown> = {}): string {
  const folder = join(temp.path, name)
  mkdirSync(join(folder, 'bin'), { recursive: true })
  writeFileSync(join(folder, 'bin/brim'), '#!/bin/sh\n', { mode: 0o755 })
  cpSync(jetson, join(folder, 'jetson'), { recursive: true })
  const platform = process.arch === 'arm64' ? 'linux-arm64' : 'linux-x64'
  const all = { version: '0.3.0', platform, node: '22.0.0', glibc: '2.28', ...release }
  writeFileSync(join(folder, 'release.json'), JSON.stringify(all, null, 2))
  return folder
}

function install(from: string, into: string, ...options: string[]) {
  const env = { ...process.env, DESTDIR: into }
  const { status, stdout, stderr } = spawnSync('sh', [join(from, 'jetson/install.sh'), ...options], { env, encoding: 'utf8' })
  return { status, stdout, stderr }
}

/** Every file below a folder, with its mode. */
const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((file) => `${file} ${(lstatSync(join(folder, file)).mode & 0o777).toString(8)}`)

describe.skipIf(process.platform !== 'linux')('install.sh', () => {
  it('installs an agent and a bridge, keeps what the owner changed when it runs again, and removes what it installed', () => {
    const from = archive('first')
    const root = join(temp.path, 'root')
    mkdirSync(root)
    expect(install(from, root, '--id', 'jetson-01', '--no-gpu')).toMatchObject({ status: 0, stderr: '' })
    const config = join(root, 'etc/brim/agent.yaml')
    expect(readFileSync(config, 'utf8')).toMatch(/^id: jetson-01$/m)
    expect(readFileSync(config, 'utf8').replace(/^id: .*$/m, '#id: ""')).toBe(readFileSync(join(jetson, 'agent.yaml'), 'utf8'))
    expect(statSync(config).mode & 0o777).toBe(0o640)
    expect(statSync(join(root, 'var/lib/brim/agent')).mode & 0o777).toBe(0o700)

    writeFileSync(config, 'id: jetson-01\napi-port: 8000\n')
    const before = filesIn(root)
    expect(install(from, root, '--id', 'another', '--no-gpu').stdout).toContain('/etc/brim/agent.yaml stays as it is')
    expect(filesIn(root)).toEqual(before)
    expect(readFileSync(config, 'utf8')).toBe('id: jetson-01\napi-port: 8000\n')

    // A job has installed another release since.
    const current = join(root, 'var/lib/brim/agent/releases/current')
    mkdirSync(dirname(current))
    symlinkSync('0.3.1-00000000', current)
    const newer = archive('second', { version: '0.4.0' })
    writeFileSync(join(newer, 'bin/new-file'), '')
    expect(install(newer, root, '--bridge').status).toBe(0)
    expect(readFileSync(join(root, 'opt/brim/release.json'), 'utf8')).toContain('0.4.0')
    expect(existsSync(join(root, 'opt/brim.old'))).toBe(false)
    expect(readdirSync(dirname(current))).toEqual([])
    rmdirSync(dirname(current))
    expect(readFileSync(join(root, 'etc/brim/bridge.yaml'), 'utf8')).toMatch(/^id: bridge-1$/m)

    expect(install(newer, root, '--uninstall').stdout).toContain('brim-bridge uses it')
    expect(install(newer, root, '--bridge', '--uninstall').status).toBe(0)
    const left = filesIn(root).filter((file) => /brim/.test(file))
    expect(left.map((file) => file.split(' ')[0])).toEqual([
      'etc/brim',
      'etc/brim/agent.yaml',
      'etc/brim/bridge.yaml',
      'var/lib/brim',
      'var/lib/brim/agent',
      'var/lib/brim/bridge',
      'var/lib/brim/bundles',
    ])
    expect(install(newer, root, '--uninstall', '--purge').status).toBe(0)
    expect(existsSync(join(root, 'var/lib/brim/bridge'))).toBe(true)
    expect(install(newer, root, '--bridge', '--uninstall', '--purge').status).toBe(0)
    expect(filesIn(root).filter((file) => /brim/.test(file))).toEqual([])
  })

  it('leaves the program to the Debian package that brought it', () => {
    const root = join(temp.path, 'packaged')
    mkdirSync(join(root, 'var/lib/dpkg/info'), { recursive: true })
    writeFileSync(join(root, 'var/lib/dpkg/info/brim.list'), '/opt/brim\n')
    const { status, stderr } = install(archive('other-archive'), root)
    expect({ status, stderr }).toMatchObject({ status: 1, stderr: expect.stringContaining('belongs to the Debian package') })
    expect(install(archive('other-archive'), root, '--uninstall').stdout).toContain('it belongs to the Debian package')
  })

  it('changes nothing with --dry-run, and says what it would do', () => {
    const root = join(temp.path, 'dry')
    mkdirSync(root)
    const { status, stdout } = install(archive('dry-archive'), root, '--dry-run', '--gpu')
    expect(status).toBe(0)
    expect(stdout).toMatch(/^machine: linux-(x64|arm64), glibc \d/m)
    expect(stdout).toContain('nothing was changed')
    expect(readdirSync(root)).toEqual([])
  })

  it.each([
    ['for another processor', { platform: 'linux-riscv' }, [], 'this archive is for linux-riscv'],
    ['for a newer C library', { glibc: '2.99' }, [], 'this archive needs glibc 2.99'],
    ['with a token that is not there', {}, ['--token-file', '/nowhere/token'], 'the token file /nowhere/token cannot be read'],
    ['with a folder that is no bundle', {}, ['--bundle', '/nowhere'], '/nowhere is no bundle'],
    ['with an unknown option', {}, ['--colour'], 'unknown option --colour'],
  ] as const)('refuses an archive %s, before it changes anything', (name, release, options, message) => {
    const root = join(temp.path, `refused ${name}`)
    mkdirSync(root)
    const { status, stderr } = install(archive(name, release), root, ...options)
    expect(status).toBeGreaterThan(0)
    expect(stderr).toContain(`error: ${message}`)
    expect(readdirSync(root)).toEqual([])
  })
})

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
describe.skipIf(isMissing('systemd-analyze (Debian: systemd)', hasSystemd))('the units', () => {
  const units = join(temp.path, 'units')
  beforeAll(() => {
    mkdirSync(units)
    for (const name of ['agent', 'bridge']) {
      const text = readFileSync(join(jetson, `brim-${name}.service`), 'utf8').replaceAll('/opt/brim/jetson', jetson)
      writeFileSync(join(units, `brim-${name}.service`), text)
    }
  })

  it.each([
    ['agent', false],
    ['bridge', false],
    ['agent', true],
  ] as const)('brim-%s with GPU: %s is correct, with an exposure of at most 2.0', (name, gpu) => {
    const unit = join(units, `brim-${name}.service`)
    if (gpu) {
      mkdirSync(`${unit}.d`)
      writeFileSync(`${unit}.d/gpu.conf`, `${readFileSync(join(jetson, 'gpu.conf'), 'utf8')}SupplementaryGroups=video\n`)
    }
    const verified = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' })
    expect(verified.stderr.split('\n').filter((line) => line.includes(`brim-${name}`))).toEqual([])
    const rated = execFileSync('systemd-analyze', ['security', '--offline=true', '--json=short', unit], { encoding: 'utf8' })
    const exposures = (JSON.parse(rated) as { exposure: string | null }[]).map(({ exposure }) => Number(exposure ?? 0))
    expect(exposures.length).toBeGreaterThan(60)
    // Exit status: 0 where the overall exposure, times ten, is at most the threshold.
    const within = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit], { encoding: 'utf8' })
    expect(`${within.status} ${within.stdout.trim().split('\n').at(-1)}`).toMatch(/^0 /)
  })
})

describe('back-off', () => {
  /** @returns seconds waited before the next start */
  function afterFailure(folder: string, result: string): number {
    const bin = join(temp.path, 'bin')
    mkdirSync(bin, { recursive: true })
    writeFileSync(join(bin, 'sleep'), '#!/bin/sh\necho "$1" >"$RUNTIME_DIRECTORY/slept"\n')
    chmodSync(join(bin, 'sleep'), 0o755)
    const env = { PATH: `${bin}:${process.env.PATH}`, RUNTIME_DIRECTORY: folder, SERVICE_RESULT: result }
    writeFileSync(join(folder, 'slept'), '0')
    for (const step of ['count', 'wait']) execFileSync(join(jetson, 'back-off'), [step], { env, stdio: 'pipe' })
    return Number(readFileSync(join(folder, 'slept'), 'utf8'))
  }

  it.skipIf(process.platform !== 'linux')('waits twice as long after each failure in a row, and not after a success', () => {
    const folder = join(temp.path, 'runtime')
    mkdirSync(folder)
    const waits = Array.from({ length: 9 }, () => afterFailure(folder, 'exit-code'))
    expect(waits).toEqual([0, 5, 10, 20, 40, 80, 160, 300, 300])
    expect(afterFailure(folder, 'success')).toBe(0)
    expect(afterFailure(folder, 'watchdog')).toBe(0)
    // The service had run for a day.
    expect(afterFailure(folder, 'watchdog')).toBe(5)
    writeFileSync(join(folder, 'started'), '-86400')
    expect(afterFailure(folder, 'watchdog')).toBe(0)
  })
})
