import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Host, openHost } from '../../agent/device/host.ts'
import { tempDir } from './temp-dir.ts'

type Text = string | string[]
interface Fixture {
  readonly files: Record<string, Text>
  /** By command line. */
  readonly programs: Record<string, Text>
}

const plain = (text: Text) => (typeof text === 'string' ? text : text.join('\n'))

export function readFixture<T = Fixture>(name: string): T {
  return JSON.parse(readFileSync(fileURLToPath(new URL(`../../jetson/fixtures/${name}.json`, import.meta.url)), 'utf8'))
}

export interface FixtureHost extends Disposable {
  readonly host: Host
  /** Command lines that were run. */
  readonly ran: string[]
  /** Overwrites files of the device. */
  set(files: Record<string, string>): void
}

/** A device of jetson/fixtures, with its files below a temporary folder. */
export function fixtureHost(name: string): FixtureHost {
  const dir = tempDir()
  const { files, programs } = readFixture(name)
  const ran: string[] = []
  const set = (contents: Record<string, Text>) => {
    for (const [path, text] of Object.entries(contents)) {
      mkdirSync(dirname(join(dir.path, path)), { recursive: true })
      writeFileSync(join(dir.path, path), plain(text))
    }
  }
  set(files)
  const host = openHost(dir.path, async (program, args) => {
    const line = [program, ...args].join(' ')
    ran.push(line)
    const output = programs[line]
    return output === undefined ? undefined : plain(output)
  })
  return { host, ran, set, [Symbol.dispose]: dir[Symbol.dispose] }
}
