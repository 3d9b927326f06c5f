import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'

const versions = '/usr/lib/postgresql'

/** Folder of PostgreSQL's programs; undefined: it is not installed. */
function programs(): string | undefined {
  const newest = existsSync(versions) ? readdirSync(versions).toSorted().at(-1) : undefined
  return newest && join(versions, newest, 'bin')
}

/** Why this machine cannot run PostgreSQL; undefined: it can. */
export const postgresProblem = (): string | undefined =>
  programs() === undefined ? 'PostgreSQL is not installed (apt-get install postgresql)' : undefined

/** It refuses to run as root. */
function ownUser(): { uid: number; gid: number } | undefined {
  if (process.getuid!() !== 0) return undefined
  const id = (flag: string) => Number(spawnSync('id', [flag, 'postgres']).stdout.toString())
  return { uid: id('-u'), gid: id('-g') }
}

export interface Postgres extends AsyncDisposable {
  readonly url: string
  stop(): Promise<void>
  start(): Promise<void>
}

/** A real PostgreSQL as a process, in a temporary folder, on a free loopback port. @param fsync commits wait for the disk */
export async function startPostgres(fsync = false): Promise<Postgres> {
  const bin = programs()!
  const user = ownUser()
  const dir = mkdtempSync(join(tmpdir(), 'brim-postgres-'))
  if (user) chownSync(dir, user.uid, user.gid)
  const data = join(dir, 'data')
  const options = { ...user, cwd: dir, stdio: 'ignore' } as const
  execFileSync(join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', 'brim', '-N', '--no-instructions', '-E', 'UTF8'], options)
  const port = await freePort()
  let server: ReturnType<typeof spawn> | undefined
  const start = async () => {
    const args = ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', dir, '-c', `fsync=${fsync ? 'on' : 'off'}`]
    server = spawn(join(bin, 'postgres'), args, options)
    for (let at = 0; spawnSync(join(bin, 'pg_isready'), ['-q', '-h', '127.0.0.1', '-p', String(port)]).status !== 0; at++) {
      if (at === 200) throw new Error('PostgreSQL did not start')
      await sleep(50)
    }
  }
  const stop = async () => {
    const ended = server && server.exitCode === null ? once(server, 'exit') : undefined
    server?.kill('SIGINT')
    await ended
  }
  await start()
  return {
    url: `postgres://brim@127.0.0.1:${port}/postgres`,
    start,
    stop,
    async [Symbol.asyncDispose]() {
      await stop()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
