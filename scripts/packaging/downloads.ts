import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../core/kit/base/version.ts'
import { nodeVersion, type Platform } from './platforms.ts'
import { runTool } from './run.ts'

/** Its version and hash. */
const zigRequirements = fileURLToPath(new URL('scripts/packaging/requirements.txt', projectRoot))

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
  if (existsSync(program)) return program
  const options = [
    '--quiet',
    '--no-input',
    '--disable-pip-version-check',
    '--no-deps',
    '--only-binary',
    ':all:',
    '--require-hashes',
  ]
  runTool('python3', ['-m', 'pip', 'install', ...options, '--target', folder, '-r', zigRequirements])
  return program
}
