import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { canLoad, jetPacksFor, neededByAll, runningGlibc } from '../../../core/kit/base/c-library.ts'
import { readBinaryNeeds } from '../../../core/kit/base/elf.ts'
import { release } from '../../../core/kit/base/version.ts'
import { writeDebianPackage } from '../../../scripts/packaging/debian.ts'
import { ensureWebGpuPlugin } from '../../../scripts/packaging/downloads.ts'
import { sha256 } from '../../../scripts/packaging/stage.ts'
import { isMissing } from '../../support/prerequisites.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const title = `brim-${release}-linux-${process.arch}`
/** The id of the user `nobody`; nothing on the system belongs to it. */
const nobodyId = 65534
const isRoot = process.getuid?.() === 0
const asNobody = isRoot ? ['setpriv', `--reuid=${nobodyId}`, `--regid=${nobodyId}`, '--clear-groups'] : []
const needsLinux = isMissing('Linux, which archives are made for', process.platform === 'linux')

let work: string
const archive = () => join(work, `${title}.tar.gz`)
const installed = () => join(work, title)

beforeAll(() => {
  if (needsLinux) return
  work = mkdtempSync(join(tmpdir(), 'brim-package-'))
  chmodSync(work, 0o755)
  // With the native modules of this checkout: to compile them for an old C library takes minutes.
  execFileSync(process.execPath, [join(root, 'dist/scripts/packaging/write-package.js'), '--this-node', '--out', work], {
    stdio: 'ignore',
  })
  execFileSync('tar', ['-xzf', archive(), '-C', work])
}, 180_000)
afterAll(() => rmSync(work, { recursive: true, force: true }))

/** Runs a program without anything of this environment but a few programs; as root, without a network and as the user `nobody`. */
function runAlone(program: string, args: readonly string[]) {
  const path = join(work, 'path')
  mkdirSync(path, { recursive: true })
  for (const tool of ['sh', 'readlink', 'dirname'])
    if (!existsSync(join(path, tool)))
      symlinkSync(execFileSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).trim(), join(path, tool))
  const home = mkdtempSync(join(work, 'home-'))
  const temporary = join(home, 'tmp')
  mkdirSync(temporary)
  if (isRoot) for (const folder of [home, temporary]) chownSync(folder, nobodyId, nobodyId)
  return { home, ...spawnAlone(['env', '-i', `HOME=${home}`, `TMPDIR=${temporary}`, `PATH=${path}`, program, ...args]) }
}

function spawnAlone(command: readonly string[], cwd?: string) {
  const withoutNetwork = isRoot ? ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'] : []
  const [file, ...args] = [...withoutNetwork, ...asNobody, ...command]
  return spawnSync(file!, args, { cwd, encoding: 'utf8' })
}

describe.skipIf(needsLinux)('an archive', () => {
  it('names what every binary in it needs of the system, and the JetPack that has it', () => {
    const { binaries, ...described } = JSON.parse(readFileSync(join(installed(), 'release.json'), 'utf8'))
    const loaded = Object.keys(binaries).map((path) => path.split('/').at(-1))
    expect(loaded).toEqual(
      expect.arrayContaining(['node', 'libonnxruntime.so.1', 'koffi.node', 'better_sqlite3.node', 'bufferutil.node']),
    )
    const needs = neededByAll(Object.values(binaries))
    expect(described).toMatchObject({ version: release, node: process.versions.node, ...needs, jetPacks: jetPacksFor(needs) })
    expect(canLoad(needs, { glibc: runningGlibc()! })).toBe(true)
  })

  it('comes with the hashes of itself and of its files', () => {
    expect(readFileSync(`${archive()}.sha256`, 'utf8')).toBe(`${sha256(archive())}  ${title}.tar.gz\n`)
    const { files } = JSON.parse(readFileSync(join(installed(), 'release.json'), 'utf8'))
    for (const file of ['bin/brim', 'dist/brim.js', 'bundles/demo-llm/manifest.json'])
      expect(files[file]).toBe(sha256(join(installed(), file)))
    const present = readdirSync(installed(), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    expect(Object.keys(files)).toEqual(
      expect.arrayContaining(['index.html', 'main.js', 'style.css'].map((name) => `dist/page/${name}`)),
    )
    expect(Object.keys(files)).toHaveLength(present.length - 1)
  })

  it('depends on the commit alone: sorted, owned by root, with one time, without caches and sources', () => {
    const list = execFileSync('tar', ['--full-time', '-tvzf', archive()], { encoding: 'utf8' }).trim().split('\n')
    const entries = list.map((line) => line.split(/\s+/))
    expect(new Set(entries.map(([, owner, , date, time]) => [owner, date, time].join()))).toHaveProperty('size', 1)
    expect(entries[0]?.[1]).toBe('0/0')
    const names = entries.map(([, , , , , name]) => name!)
    expect(names.filter((name) => /\.(d\.ts|map|cc)$|\/\.cache|\/vitest\/|\/musl/.test(name))).toEqual([])
    expect(readFileSync(archive()).readUInt32LE(4), 'time in the header of gzip').toBe(0)
  })

  it('answers from a clean folder, as an unprivileged user, without a network and without another Node', () => {
    const brim = join(installed(), 'bin/brim')
    const demo = runAlone(brim, ['demo', '--json', '--max-tokens', '32'])
    expect(demo.status, demo.stderr).toBe(0)
    const { answers } = JSON.parse(demo.stdout.trim().split('\n').at(-1) ?? '')
    expect(answers.map((answer: { mode: string }) => answer.mode)).toEqual(['hat', 'hat', 'hat', 'whole'])
    expect(new Set(answers.map((answer: { device: string }) => answer.device)).size).toBe(3)
    for (const answer of answers) {
      expect(answer).toMatchObject({ identical: true, prompt: expect.any(String), text: expect.stringMatching(/./) })
      expect(answer.tokens).toBeGreaterThan(0)
      expect(answer.ttftMs).toBeGreaterThan(0)
    }
    for (const answer of answers.slice(0, 3)) {
      expect(answer.acceptLength).toBeGreaterThanOrEqual(1)
      expect(answer.bytesUp).toBeGreaterThan(0)
      expect(answer.bytesDown).toBeGreaterThan(0)
    }
    expect(readdirSync(join(demo.home, 'tmp'))).toEqual([])
    const link = join(work, 'brim')
    symlinkSync(brim, link)
    expect(runAlone(link, ['--help']).stdout).not.toMatch(/bench|simulat/)
    for (const noun of ['bench', 'simulate']) {
      const { status, stderr } = runAlone(link, [noun, '--help'])
      expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(`"brim ${noun}" belongs to a checkout`) })
    }
    // As the archive for arm64 has it; this one is no library.
    const plugin = join(installed(), 'lib/libonnxruntime_providers_webgpu.so')
    mkdirSync(dirname(plugin))
    writeFileSync(plugin, '')
    const bundle = join(installed(), 'bundles/demo-llm')
    const onGpu = runAlone(link, ['model', 'run', bundle, '--prompt', 'hi', '--provider', 'webgpu'])
    rmSync(dirname(plugin), { recursive: true })
    expect({ status: onGpu.status, stderr: onGpu.stderr }).toEqual({ status: 1, stderr: expect.stringContaining(plugin) })
    expect(runAlone(link, ['--version']).stdout).toMatch(new RegExp(`^${release.replaceAll('.', '\\.')}`))
  })
})

describe('the WebGPU plug-in of archives for arm64', () => {
  const cache = join(root, '.cache/packaging')
  let plugin: Readonly<Record<string, string>> | undefined
  try {
    plugin = ensureWebGpuPlugin(cache)
  } catch {}

  it.skipIf(isMissing('python3 with pip, and PyPI', plugin !== undefined))(
    'is for that processor and JetPack 5, with its licences',
    () => {
      const { 'libonnxruntime_providers_webgpu.so': library, ...texts } = plugin!
      const needs = readBinaryNeeds(library!)!
      expect(needs.arch).toBe('arm64')
      expect(jetPacksFor(needs)).toContain('5')
      expect(Object.keys(texts)).toEqual(['webgpu-LICENSE', 'webgpu-ThirdPartyNotices.txt'])
      for (const text of Object.values(texts)) expect(readFileSync(text, 'utf8')).toMatch(/copyright|license/i)
    },
  )

  it('is refused where it is not the pinned one or PyPI cannot be reached, with what to do', () => {
    const folder = mkdtempSync(join(tmpdir(), 'brim-plugin-'))
    const module = JSON.stringify(new URL('../../../dist/scripts/packaging/downloads.js', import.meta.url))
    const code = `import { ensureWebGpuPlugin } from ${module}; ensureWebGpuPlugin(${JSON.stringify(folder)})`
    const env = { ...process.env, PIP_INDEX_URL: 'http://127.0.0.1:9/simple' }
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { env, encoding: 'utf8' })
    expect(status).toBe(1)
    expect(stderr).toContain('onnxruntime-ep-webgpu==0.4.0 could not be installed from PyPI')
    expect(existsSync(join(folder, 'webgpu-arm64'))).toBe(false)
    rmSync(folder, { recursive: true })
  })
})

describe.skipIf(needsLinux)('the npm package', () => {
  it('is installed by npm into an empty folder of an ordinary user, and answers by npx without a network', () => {
    const app = join(work, 'app')
    const tarball = join(work, `brim-${release}.tgz`)
    mkdirSync(app)
    if (isRoot) chownSync(app, nobodyId, nobodyId)
    installByNpm(app, tarball)
    const npx = (...args: string[]) =>
      spawnAlone(['env', '-i', `HOME=${app}`, `PATH=${process.env.PATH}`, 'npx', '--no-install', 'brim', ...args], app)
    expect(npx('--help').stdout).toContain('Usage: brim <command> [options]')
    // It builds the demonstration bundle first, in the cache of its user.
    const demo = npx('demo', '--json', '--max-tokens', '4')
    expect(demo.status, demo.stderr).toBe(0)
    const { answers } = JSON.parse(demo.stdout.trim().split('\n').at(-1) ?? '') as { answers: { identical: boolean }[] }
    expect(answers.map(({ identical }) => identical)).toEqual([true, true, true, true])
  }, 180_000)

  /** Where no registry can be reached, the archive's packages are in the place of what npm would download. */
  function installByNpm(app: string, tarball: string): void {
    // A copy of a cache that may have gigabytes: not into memory, where temporary folders may be.
    const cache = mkdtempSync('/var/tmp/brim-npm-cache-')
    onTestFinished(() => rmSync(cache, { recursive: true, force: true }))
    const config = (key: string) => execFileSync('npm', ['config', 'get', key], { encoding: 'utf8' }).trim()
    if (existsSync(config('cache'))) cpSync(config('cache'), cache, { recursive: true })
    if (isRoot) execFileSync('chown', ['-R', `${nobodyId}:${nobodyId}`, cache])
    // Without the compilation of better-sqlite3, which takes minutes: its result comes from this checkout.
    const options = ['--no-audit', '--no-fund', '--prefer-offline', '--fetch-retries=0', '--ignore-scripts']
    const environment = ['-i', `HOME=${app}`, `PATH=${process.env.PATH}`, `npm_config_cache=${cache}`]
    const npm = ['npm', 'install', ...options, `--registry=${config('registry')}`, tarball]
    const [file, ...args] = [...asNobody, 'env', ...environment, ...npm]
    const { status, stderr } = spawnSync(file!, args, { cwd: app, encoding: 'utf8' })
    const modules = join(app, 'node_modules')
    if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTCACHED/.test(stderr)) {
      mkdirSync(join(modules, '.bin'), { recursive: true })
      execFileSync('tar', ['-xzf', tarball, '-C', modules])
      renameSync(join(modules, 'package'), join(modules, 'brim'))
      symlinkSync(join(installed(), 'node_modules'), join(modules, 'brim/node_modules'))
      symlinkSync('../brim/bin/brim', join(modules, '.bin/brim'))
      return
    }
    expect(status, stderr).toBe(0)
    cpSync(join(root, 'node_modules/better-sqlite3/build'), join(modules, 'better-sqlite3/build'), { recursive: true })
  }
})

const cannotInstall = isMissing('dpkg, as root', isRoot && spawnSync('dpkg', ['--version']).status === 0)

describe.skipIf(needsLinux || cannotInstall)('a Debian package', () => {
  it('installs, upgrades, and leaves nothing behind when it is purged', () => {
    const scratch = join(work, 'scratch')
    for (const folder of ['updates', 'info', 'triggers']) mkdirSync(join(scratch, 'var/lib/dpkg', folder), { recursive: true })
    for (const file of ['status', 'available']) writeFileSync(join(scratch, 'var/lib/dpkg', file), '')
    const dpkg = (...args: string[]) =>
      execFileSync(
        'dpkg',
        [`--root=${scratch}`, `--log=${join(work, 'dpkg.log')}`, '--force-script-chrootless', '--force-depends', ...args],
        {
          encoding: 'utf8',
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      )
    const deb = packageOf(['bin/brim', 'LICENSE', 'dist/old.js'])
    expect(dpkg('--install', deb)).toContain('/opt/brim/jetson/install.sh')
    expect(existsSync(join(scratch, 'opt/brim/bin/brim'))).toBe(true)
    expect(readdirSync(join(scratch, 'usr/bin'))).toEqual(['brim'])
    dpkg('--install', packageOf(['bin/brim', 'LICENSE', 'dist/new.js']))
    expect(readdirSync(join(scratch, 'opt/brim/dist'))).toEqual(['new.js'])

    // What the installer adds to the package's files.
    const [state, unit] = [join(scratch, 'var/lib/brim/agent'), join(scratch, 'etc/systemd/system/brim-agent.service')]
    for (const file of [join(state, 'key'), unit, join(scratch, 'etc/brim/agent.yaml')]) {
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, '')
    }
    dpkg('--remove', 'brim')
    expect([join(scratch, 'opt'), unit, state].map((path) => existsSync(path))).toEqual([false, false, true])
    dpkg('--purge', 'brim')
    expect(existsSync(join(scratch, 'etc/brim'))).toBe(false)
    expect(readdirSync(join(scratch, 'var/lib'))).toEqual(['dpkg'])
  })

  /** Of a few files in the place of the archive's, which would take many seconds. */
  function packageOf(files: readonly string[]): string {
    const staged = join(mkdtempSync(join(work, 'deb-')), 'staged')
    for (const file of files) {
      mkdirSync(dirname(join(staged, file)), { recursive: true })
      writeFileSync(join(staged, file), '')
    }
    cpSync(join(root, 'jetson/install.sh'), join(staged, 'jetson/install.sh'))
    return writeDebianPackage(staged, { out: work, debianArch: 'all', modified: '1790000000', level: 1 })
  }
})
