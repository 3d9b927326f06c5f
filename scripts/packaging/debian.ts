import { chmodSync, cpSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot, release } from '../../core/kit/base/version.ts'
import { runTool } from './run.ts'

/** The package's scripts: postinst and so on. */
const scripts = fileURLToPath(new URL('scripts/packaging/debian', projectRoot))

interface DebianOptions {
  readonly out: string
  readonly debianArch: string
  /** Seconds since 1970. */
  readonly modified: string
  /** Of gzip. */
  readonly level: number
}

/**
 * Writes a Debian package that puts an archive's files below /opt/brim. It uses the staged folder up.
 * @returns its path
 */
export function writeDebianPackage(staged: string, { out, debianArch, modified, level }: DebianOptions): string {
  const tree = join(dirname(staged), 'debian')
  mkdirSync(join(tree, 'opt'), { recursive: true })
  renameSync(staged, join(tree, 'opt/brim'))
  mkdirSync(join(tree, 'usr/bin'), { recursive: true })
  symlinkSync('/opt/brim/bin/brim', join(tree, 'usr/bin/brim'))
  mkdirSync(join(tree, 'usr/share/doc/brim'), { recursive: true })
  cpSync(join(tree, 'opt/brim/LICENSE'), join(tree, 'usr/share/doc/brim/copyright'))
  const control = join(tree, 'DEBIAN')
  cpSync(scripts, control, { recursive: true })
  for (const script of readdirSync(control)) chmodSync(join(control, script), 0o755)
  writeFileSync(join(control, 'control'), controlFile(debianArch))
  runTool('chmod', ['-R', 'u+rwX,go+rX,go-w', tree])
  const path = join(out, `brim_${release}_${debianArch}.deb`)
  rmSync(path, { force: true })
  // It takes the files' times from SOURCE_DATE_EPOCH where they are newer.
  runTool('dpkg-deb', ['--root-owner-group', '-Zgzip', `-z${level}`, '--build', tree, path], {
    env: { SOURCE_DATE_EPOCH: modified },
  })
  return path
}

const controlFile = (arch: string) => `Package: brim
Version: ${release}
Architecture: ${arch}
Maintainer: Brim
Section: net
Priority: optional
Depends: libc6 (>= 2.28), libstdc++6 (>= 8)
Suggests: libvulkan1
Description: One language model across your fleet and your cloud
 Agent for devices and bridge for the cloud, with the Node that runs them.
 The services brim-agent and brim-bridge are set up by the installer in
 /opt/brim/jetson.
`
