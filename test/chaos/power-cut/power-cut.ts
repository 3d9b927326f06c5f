import { execFileSync, spawnSync } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const source = fileURLToPath(new URL('record-syncs.c', import.meta.url))

/** Builds `record-syncs.c`. @returns undefined without a compiler, or Linux */
export function buildRecorder(folder: string): string | undefined {
  const library = join(folder, 'record-syncs.so')
  if (process.platform !== 'linux' || spawnSync('cc', ['--version']).error) return undefined
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-lpthread'])
  return library
}

interface Entry {
  readonly inode: string
  readonly kind: string
  readonly name: string
  readonly target: string
}

/**
 * A folder as a disk that may lose its power. Processes started with `env` sync nothing, but record what they ask to sync; a cut
 * then copies what a disk would hold that has written nothing else.
 */
export class Disk implements Disposable {
  readonly #root: string
  readonly #records: string
  readonly #library: string
  /** What was on the disk at first, open: its inodes are not used again. */
  readonly #open: number[] = []

  /** @param records a new folder @param root exists: what it holds now is on disk */
  constructor(library: string, records: string, root: string) {
    this.#library = library
    this.#records = records
    this.#root = root
    mkdirSync(records)
    this.#format(root)
  }

  get env(): NodeJS.ProcessEnv {
    return { ...process.env, LD_PRELOAD: this.#library, DISK: this.#records, UV_USE_IO_URING: '0' }
  }

  /** Number of syncs until now. */
  get syncs(): number {
    return this.#order().length - this.#open.length
  }

  /**
   * Copies what a power cut leaves.
   * @param names `synced`: of each folder the names that were synced; `all`: every name, as on a disk that writes names at once,
   * but contents later
   * @param after number of syncs before the cut; only with `synced`
   */
  cut(to: string, names: 'synced' | 'all', after = Number.POSITIVE_INFINITY): string {
    const order = this.#order().slice(0, this.#open.length + after)
    const contents = new Map(order.map((record) => [record.split('-')[1]!, join(this.#records, record)]))
    const copy = (inode: string, path: string, to: string) => {
      mkdirSync(to, { recursive: true, mode: 0o700 })
      const known = contents.get(inode)
      const entries = names === 'all' ? entriesIn(path) : known === undefined ? [] : parse(readFileSync(known, 'utf8'))
      for (const { inode, kind, name, target } of entries) {
        const found = contents.get(inode)
        if (kind === 'd') copy(inode, join(path, name), join(to, name))
        else if (kind === 'l') symlinkSync(target, join(to, name))
        else if (found === undefined) writeFileSync(join(to, name), '', { mode: 0o600 })
        else writeFileSync(join(to, name), readFileSync(found), { mode: 0o600 })
      }
    }
    copy(inodeOf(this.#root), this.#root, to)
    return to
  }

  [Symbol.dispose](): void {
    for (const fd of this.#open) closeSync(fd)
  }

  #order(): string[] {
    return readdirSync(this.#records)
      .filter((name) => !name.endsWith('.new'))
      .sort()
  }

  #format(path: string): void {
    const record = join(this.#records, `${'0'.repeat(20)}-${inodeOf(path)}`)
    this.#open.push(openSync(path, 'r'))
    if (!statSync(path).isDirectory()) {
      copyFileSync(path, record)
      return
    }
    const entries = entriesIn(path)
    writeFileSync(record, entries.map(({ inode, kind, name, target }) => `${[inode, kind, name, target].join('\t')}\n`).join(''))
    for (const { kind, name } of entries) if (kind !== 'l') this.#format(join(path, name))
  }
}

const inodeOf = (path: string) => String(lstatSync(path).ino)

function entriesIn(folder: string): Entry[] {
  return readdirSync(folder, { withFileTypes: true }).map((entry) => {
    const path = join(folder, entry.name)
    const kind = entry.isDirectory() ? 'd' : entry.isSymbolicLink() ? 'l' : 'f'
    return { inode: inodeOf(path), kind, name: entry.name, target: kind === 'l' ? readlinkSync(path) : '' }
  })
}

const parse = (text: string): Entry[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [inode = '', kind = '', name = '', target = ''] = line.split('\t')
      return { inode, kind, name, target }
    })
