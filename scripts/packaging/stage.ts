import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jetPacksFor, neededByAll } from '../../core/kit/base/c-library.ts'
import { readBinaryNeeds } from '../../core/kit/base/elf.ts'
import { projectRoot, release, version } from '../../core/kit/base/version.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { ensureNode, ensureWebGpuPlugin, ensureZig } from './downloads.ts'
import { addNativeModules } from './native-modules.ts'
import { nodeVersion, type PlatformName, platforms } from './platforms.ts'
import { runTool } from './run.ts'

const root = fileURLToPath(projectRoot)
const cache = join(root, '.cache/packaging')
const launcher = fileURLToPath(new URL('scripts/packaging/launcher.sh', projectRoot))

/** What is in an archive's release.json; docs/packages.md explains the fields. */
interface Release {
  readonly version: string
  readonly commit: string | undefined
  readonly platform: PlatformName
  readonly node: string
  readonly glibc: string | undefined
  readonly glibcxx: string | undefined
  readonly jetPacks: readonly string[]
  readonly binaries: Readonly<Record<string, { readonly glibc?: string; readonly glibcxx?: string }>>
  readonly files: Readonly<Record<string, string>>
}

interface StageOptions {
  readonly platform: PlatformName
  /** With this machine's Node and native modules instead of the pinned Node and modules for an old C library. */
  readonly thisNode: boolean
  /** The npm package of this version, whose files the archive holds. */
  readonly npmPackage: string
}

/**
 * Lays an archive's files out in an empty folder (docs/packages.md).
 * @throws Error where a binary would not run on JetPack 5
 */
export async function stage(folder: string, { platform: name, thisNode, npmPackage }: StageOptions): Promise<void> {
  const platform = platforms[name]
  runTool('tar', ['-xzf', npmPackage, '-C', folder, '--strip-components=1'])
  const modules = join(folder, 'node_modules')
  if (thisNode) {
    copyProductionPackages(modules)
    copyNode(process.execPath, undefined, folder)
  } else {
    installPackages(folder, platform.arch)
    const node = ensureNode(platform, cache)
    addNativeModules(modules, { zig: () => ensureZig(cache), platform, headers: join(node, 'include/node'), cache })
    copyNode(join(node, 'bin/node'), join(node, 'LICENSE'), folder)
  }
  prune(modules, platform.arch)
  if (platform.arch === 'arm64')
    for (const [name, from] of Object.entries(ensureWebGpuPlugin(cache))) cpSync(from, join(folder, 'lib', name))
  cpSync(await ensureDemoBundle(), join(folder, 'bundles/demo-llm'), { recursive: true })
  // In the npm package it is started by the user's Node.
  renameSync(join(folder, 'bin/brim'), join(folder, 'bin/brim.cjs'))
  cpSync(launcher, join(folder, 'bin/brim'))
  chmodSync(join(folder, 'bin/brim'), 0o755)
  const described = describe(folder, name, thisNode ? process.versions.node : nodeVersion)
  if (!thisNode && !described.jetPacks.includes('5'))
    throw new Error(`the binaries need glibc ${described.glibc} and GLIBCXX ${described.glibcxx}, which JetPack 5 does not have`)
  writeFileSync(join(folder, 'release.json'), `${JSON.stringify(described, null, 2)}\n`)
}

/** As the lock file pins them, for another processor too. Their install scripts do not run: they would compile for this one. */
function installPackages(folder: string, arch: string): void {
  for (const name of ['package-lock.json', '.npmrc']) cpSync(join(root, name), join(folder, name))
  const target = ['--os=linux', `--cpu=${arch}`, '--libc=glibc']
  runTool('npm', ['ci', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', ...target], {
    cwd: folder,
  })
  for (const name of ['package-lock.json', '.npmrc']) rmSync(join(folder, name))
}

/** From this checkout's packages, those that are not for development alone. */
function copyProductionPackages(modules: string): void {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>
  }
  for (const [path, { dev }] of Object.entries(lock.packages)) {
    if (path === '' || dev === true || !existsSync(join(root, path))) continue
    const nested = join(root, path, 'node_modules')
    cpSync(join(root, path), join(dirname(modules), path), { recursive: true, filter: (from) => from !== nested })
  }
}

function copyNode(program: string, licence: string | undefined, folder: string): void {
  mkdirSync(join(folder, 'node/bin'), { recursive: true })
  cpSync(program, join(folder, 'node/bin/node'), { dereference: true })
  if (licence !== undefined) cpSync(licence, join(folder, 'node/LICENSE'))
}

/** Libraries for other systems, and what only compilers and debuggers read. */
function prune(modules: string, arch: string): void {
  const folders = {
    'onnxruntime-node/bin/napi-v6': 'linux',
    'onnxruntime-node/bin/napi-v6/linux': arch,
    'bufferutil/prebuilds': `linux-${arch}`,
  }
  for (const [folder, kept] of Object.entries(folders))
    for (const other of readdirSync(join(modules, folder)).filter((name) => name !== kept))
      rmSync(join(modules, folder, other), { recursive: true })
  rmSync(join(modules, `@koromix/koffi-linux-${arch}/musl_${arch}`), { recursive: true })
  const unread = /(\.(map|tsbuildinfo|[mc]?ts|c|cc|cpp|h|hh|gyp|gypi)|\/test_extension\.node)$/
  for (const file of filesIn(modules)) if (unread.test(file)) rmSync(join(modules, file))
}

function describe(folder: string, platform: PlatformName, node: string): Release {
  const files = filesIn(folder).sort()
  const binaries = Object.fromEntries(
    files.flatMap((file) => {
      const needs = lstatSync(join(folder, file)).isFile() ? readBinaryNeeds(join(folder, file)) : undefined
      if (needs === undefined) return []
      const { arch, ...versions } = needs
      if (arch !== platforms[platform].arch) throw new Error(`${file} is for another processor: ${arch}`)
      return [[file, versions]]
    }),
  )
  const needed = neededByAll(Object.values(binaries))
  return {
    version: release,
    commit: version.split('+')[1],
    platform,
    node,
    glibc: needed.glibc,
    glibcxx: needed.glibcxx,
    jetPacks: jetPacksFor(needed),
    binaries,
    files: Object.fromEntries(files.map((file) => [file, sha256(join(folder, file))])),
  }
}

/** Files, without folders and links. */
const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))

export const sha256 = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex')

/** Of the commit, so that two builds of it are the same byte for byte. @returns seconds since 1970 */
export const commitTime = (): string => execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root, encoding: 'utf8' }).trim()
