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

  it('gives the service the GPU that it finds, says what that lacks, and installs without', () => {
    const from = archive('with-gpu')
    const root = join(temp.path, 'root-with-gpu')
    const add = (path: string, mode: number) => {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), '')
      chmodSync(join(root, path), mode)
    }
    add('dev/null', 0o666)
    expect(install(from, root)).toMatchObject({ status: 0, stderr: '' })
    const dropIn = join(root, 'etc/systemd/system/brim-agent.service.d/gpu.conf')
    expect(existsSync(dropIn)).toBe(false)

    const forced = install(from, root, '--gpu')
    expect(forced.status).toBe(0)
    for (const missing of ['libvulkan.so.1 was not found', 'no Vulkan driver is in', 'no device of a GPU was found'])
      expect(forced.stderr).toContain(`warning: ${missing}`)
    expect(install(from, root, '--no-gpu')).toMatchObject({ status: 0, stderr: '' })
    expect(existsSync(dropIn)).toBe(false)

    // Files of this user in the place of devices: they belong to none of the groups video and render.
    add('dev/nvmap', 0o600)
    add('dev/dri/renderD128', 0o666)
    const found = install(from, root)
    expect(found.status).toBe(0)
    expect(found.stderr).not.toContain('no device of a GPU')
    expect(found.stderr).toMatch(/^warning: \/dev\/nvmap belongs to the group .* cannot open it$/m)
    expect(found.stderr).not.toContain('renderD128 belongs')
    expect(readFileSync(dropIn, 'utf8')).toMatch(/^DeviceAllow=\/dev\/nvmap rw\n[\s\S]*^SupplementaryGroups=/m)

    add('dev/nvmap', 0o666)
    add('usr/lib/aarch64-linux-gnu/libvulkan.so.1', 0o644)
    add('etc/vulkan/icd.d/nvidia_icd.json', 0o644)
    // A container may lack the groups.
    expect(install(from, root).stderr.replace(/^warning: this system has no group.*\n/, '')).toBe('')
  })

  it('says that no group could open a GPU', () => {
    const from = archive('without-groups')
    const bin = join(temp.path, 'without-getent')
    mkdirSync(bin)
    writeFileSync(join(bin, 'getent'), '#!/bin/sh\nexit 2\n', { mode: 0o755 })
    const root = join(temp.path, 'root-without-groups')
    mkdirSync(root)
    const env = { ...process.env, DESTDIR: root, PATH: `${bin}:${process.env.PATH}` }
    const { status, stderr } = spawnSync('sh', [join(from, 'jetson/install.sh'), '--gpu'], { env, encoding: 'utf8' })
    expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('no group video or render') })
  })

  it('adds a server of a small model that the agent uses, changes its model, and removes it with the agent', () => {
    const from = archive('with-slm')
    const root = join(temp.path, 'root-with-slm')
    const model = join(temp.path, 'Small-1.5B_q4.gguf')
    writeFileSync(model, '', { mode: 0o644 })
    const program = join(root, 'usr/local/bin/llama-server')
    mkdirSync(dirname(program), { recursive: true })
    expect(install(from, root, '--slm-server', model).stderr).toContain(
      "llama.cpp's server was not found as /usr/local/bin/llama-server",
    )
    expect(existsSync(join(root, 'opt'))).toBe(false)
    writeFileSync(program, '', { mode: 0o755 })
    expect(install(from, root, '--slm-server', model, '--no-gpu')).toMatchObject({ status: 0, stderr: '' })
    const config = join(root, 'etc/brim/agent.yaml')
    expect(readFileSync(config, 'utf8')).toMatch(
      /^slm-server: http:\/\/127\.0\.0\.1:8080\n[\s\S]*^slm-server-model: "Small-1\.5B_q4"$/m,
    )
    const settings = join(root, 'etc/brim/slm-server.env')
    expect(readFileSync(settings, 'utf8')).toMatch(
      /^LLAMA_ARG_MODEL=\/.*\/Small-1\.5B_q4\.gguf\n[\s\S]*^LLAMA_ARG_ALIAS=Small-1\.5B_q4$/m,
    )
    const unit = join(root, 'etc/systemd/system/brim-slm-server.service')
    expect(readFileSync(unit, 'utf8')).toContain('llama-server --host 127.0.0.1')

    // Another model; what the owner has set stays.
    const other = join(temp.path, 'other.gguf')
    writeFileSync(other, '', { mode: 0o644 })
    writeFileSync(settings, readFileSync(settings, 'utf8').replace('N_PARALLEL=4', 'N_PARALLEL=2'))
    writeFileSync(config, 'id: jetson-01\n')
    expect(install(from, root, '--slm-server', other, '--gpu').stderr).toContain('the agent does not use brim-slm-server yet')
    expect(readFileSync(settings, 'utf8')).toMatch(/other\.gguf\n[\s\S]*LLAMA_ARG_ALIAS=other\n[\s\S]*N_PARALLEL=2\n/)
    expect(readFileSync(`${unit}.d/gpu.conf`, 'utf8')).toContain('DeviceAllow=char-nvidia* rw')

    expect(install(from, root, '--uninstall', '--purge').status).toBe(0)
    expect(filesIn(root).filter((file) => /brim|slm/.test(file))).toEqual([])
  })

  it.each([
    ['that is not there', 'absent.gguf', undefined, 'is no file'],
    ['that its service cannot read', 'private.gguf', 0o600, 'brim-slm-server cannot read'],
    ['with a name that a unit cannot hold', 'a b.gguf', 0o644, 'has a character'],
  ] as const)('refuses a small model %s', (_, name, mode, message) => {
    const model = join(temp.path, name)
    if (mode !== undefined) writeFileSync(model, '', { mode })
    const root = join(temp.path, `refused ${name}`)
    mkdirSync(root)
    const { status, stderr } = install(archive(`for ${name}`), root, '--slm-server', model)
    expect({ status, stderr }).toMatchObject({ status: 1, stderr: expect.stringContaining(message) })
    expect(readdirSync(root)).toEqual([])
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
    const program = join(units, 'llama-server')
    writeFileSync(program, '', { mode: 0o755 })
    for (const name of ['agent', 'bridge', 'slm-server']) {
      const text = readFileSync(join(jetson, `brim-${name}.service`), 'utf8')
        .replaceAll('/opt/brim/jetson', jetson)
        .replaceAll('/usr/local/bin/llama-server', program)
      writeFileSync(join(units, `brim-${name}.service`), text)
    }
  })

  it.each([
    ['agent', false],
    ['bridge', false],
    ['slm-server', false],
    ['agent', true],
    ['slm-server', true],
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
