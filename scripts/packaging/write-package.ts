import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { projectRoot, release } from '../../core/kit/base/version.ts'
import { writeDebianPackage } from './debian.ts'
import { type PlatformName, platforms } from './platforms.ts'
import { runTool } from './run.ts'
import { commitTime, sha256, stage } from './stage.ts'

const { values } = parseArgs({
  options: {
    platform: { type: 'string', default: `linux-${process.arch}` },
    out: { type: 'string', default: '.cache/packages' },
    deb: { type: 'boolean', default: false },
    'this-node': { type: 'boolean', default: false },
  },
})
const { platform: name, deb, 'this-node': thisNode } = values
if (!isPlatform(name)) throw new Error(`--platform ${name} is none of ${Object.keys(platforms).join(', ')}`)
if (thisNode && (process.platform !== 'linux' || platforms[name].arch !== process.arch))
  throw new Error('--this-node makes an archive for this machine alone')

const root = fileURLToPath(projectRoot)
const out = resolve(values.out)
mkdirSync(out, { recursive: true })
// On the same file system as the results.
const work = mkdtempSync(join(out, '.package-'))
try {
  runTool('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', out], { cwd: root })
  const npmPackage = join(out, `brim-${release}.tgz`)
  const title = `brim-${release}-${name}`
  const folder = join(work, title)
  mkdirSync(folder)
  await stage(folder, { platform: name, thisNode, npmPackage })
  const modified = commitTime()
  // A test's archive is unpacked once.
  const level = thisNode ? 1 : 9
  const written = [npmPackage, writeArchive(title, modified, level)]
  if (deb) written.push(writeDebianPackage(folder, { out, debianArch: platforms[name].debian, modified, level }))
  for (const file of written) {
    writeFileSync(`${file}.sha256`, `${sha256(file)}  ${basename(file)}\n`)
    console.log(file)
  }
} finally {
  rmSync(work, { recursive: true, force: true })
}

/** The same bytes for the same files: sorted, owned by root, with the time of the commit. */
function writeArchive(title: string, modified: string, level: number): string {
  const archive = join(work, `${title}.tar.gz`)
  const same = [
    '--sort=name',
    '--format=gnu',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u+rwX,go+rX,go-w',
    `--mtime=@${modified}`,
  ]
  runTool('tar', ['-C', work, ...same, `--use-compress-program=gzip -n -${level}`, '-cf', archive, title])
  const path = join(out, basename(archive))
  renameSync(archive, path)
  return path
}

function isPlatform(text: string): text is PlatformName {
  return text in platforms
}
