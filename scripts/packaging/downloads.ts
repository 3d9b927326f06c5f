import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../core/kit/base/version.ts'
import { nodeVersion, type Platform } from './platforms.ts'
import { runTool } from './run.ts'

/** A Python package's version and hash. */
const requirementsOf = (name: string) => fileURLToPath(new URL(`scripts/packaging/${name}.requirements.txt`, projectRoot))

/**
 * Node for a platform, with its headers, from the npm registry.
 * @param cache where downloads are kept
 * @returns its folder
 * @throws Error where the download is not the pinned one
 */
export function ensureNode({ node }: Platform, cache: string): string {
  const folder = join(cache, `${node.name}-${nodeVersion}`)
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  runTool('npm', ['pack', `${node.name}@${nodeVersion}`, '--silent', '--pack-destination', cache])
  const archive = join(cache, `${node.name}-${nodeVersion}.tgz`)
  const integrity = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`
  if (integrity !== node.integrity) throw new Error(`${archive} is ${integrity}, not ${node.integrity}; delete it and try again`)
  const beside = `${folder}.part`
  rmSync(beside, { recursive: true, force: true })
  mkdirSync(beside)
  runTool('tar', ['-xzf', archive, '-C', beside, '--strip-components=1'])
  renameSync(beside, folder)
  rmSync(archive)
  return folder
}

/**
 * Zig, whose C and C++ compilers link for another processor and for an older C library than this machine's.
 * @returns its program
 */
export function ensureZig(cache: string): string {
  const folder = join(cache, 'zig')
  const program = join(folder, 'ziglang/zig')
  if (!existsSync(program)) installWheel('zig', folder)
  return program
}

/**
 * ONNX Runtime's WebGPU provider as a plug-in for 64-bit ARM, for which onnxruntime-node has it not built in.
 * @param cache where downloads are kept
 * @returns the files to package, by their names in the folder `lib` of an archive
 * @throws Error where it cannot be downloaded, or is not the pinned one
 */
export function ensureWebGpuPlugin(cache: string): Readonly<Record<string, string>> {
  const folder = join(cache, 'webgpu-arm64')
  if (!existsSync(folder)) {
    const beside = `${folder}.part`
    rmSync(beside, { recursive: true, force: true })
    // Python's version counts for no file in the wheel.
    installWheel('webgpu', beside, ['--platform', 'manylinux_2_28_aarch64', '--python-version', '3.11'])
    renameSync(beside, folder)
  }
  const licences = readdirSync(folder).find((name) => /^onnxruntime_ep_webgpu-.*\.dist-info$/.test(name))
  if (licences === undefined) throw new Error(`${folder} is not complete; delete it and try again`)
  return {
    'libonnxruntime_providers_webgpu.so': join(folder, 'onnxruntime_ep_webgpu/libonnxruntime_providers_webgpu.so'),
    'webgpu-LICENSE': join(folder, licences, 'licenses/LICENSE'),
    'webgpu-ThirdPartyNotices.txt': join(folder, licences, 'licenses/ThirdPartyNotices.txt'),
  }
}

/** Installs what `<name>.requirements.txt` pins into a folder. @throws Error */
function installWheel(name: string, folder: string, options: readonly string[] = []): void {
  const pinned = ['--no-deps', '--only-binary', ':all:', '--require-hashes', '-r', requirementsOf(name)]
  const quiet = ['--quiet', '--no-input', '--disable-pip-version-check', '--retries', '1', '--timeout', '30']
  try {
    runTool('python3', ['-m', 'pip', 'install', ...quiet, ...pinned, ...options, '--target', folder])
  } catch (cause) {
    const wanted = readFileSync(requirementsOf(name), 'utf8').split(' ')[0]
    throw new Error(
      `${wanted} could not be installed from PyPI (pip's reason is above); packages are made with a network, or with PIP_FIND_LINKS=FOLDER that has the wheel`,
      { cause },
    )
  }
}
