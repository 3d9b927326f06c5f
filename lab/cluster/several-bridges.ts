import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SharedDatabase } from '../../core/wire/protocol/http/devices.ts'
import { freePort } from './free-port.ts'
import { type Mosquitto, startMosquitto } from './mosquitto.ts'
import { type Postgres, startPostgres } from './postgres.ts'
import { type BrimProcess, startBrim } from './processes.ts'

export interface BridgeNode {
  readonly url: string
  readonly process: BrimProcess
}

export interface SeveralBridges extends AsyncDisposable {
  readonly dir: string
  readonly postgres: Postgres
  readonly broker: Mosquitto
  /** Starts a process, or starts one again on the same port with the same folder. @param words further options */
  start(node: string, ...words: string[]): Promise<BridgeNode>
}

interface SeveralBridgesOptions {
  /** Options that tell what answers. */
  readonly answers?: readonly string[]
  /** Commits wait for the disk. */
  readonly fsync?: boolean
  /** Bridges and broker require proof of identity. */
  readonly guarded?: boolean
  /** As of `startBrim`. */
  readonly program?: string
}

/** PostgreSQL, mosquitto, and processes that are one bridge. */
export async function severalBridges(
  env: Readonly<Record<string, string | undefined>>,
  options: SeveralBridgesOptions = {},
): Promise<SeveralBridges> {
  const {
    answers = ['--upstream', 'http://127.0.0.1:9/v1', '--upstream-model', 'none'],
    fsync = false,
    guarded = false,
    program,
  } = options
  const dir = mkdtempSync(join(tmpdir(), 'brim-bridges-'))
  const postgres = await startPostgres(fsync)
  const broker = await startMosquitto({ guarded })
  const access = broker.adminFile === undefined ? ['--no-auth'] : ['--broker-admin-file', broker.adminFile]
  const ports = new Map<string, number>()
  const running = new Map<string, BrimProcess>()
  return {
    dir,
    postgres,
    broker,
    async start(node, ...words) {
      const port = ports.get(node) ?? (await freePort())
      ports.set(node, port)
      const started = await startBrim(
        [
          ...['bridge', 'run', ...answers, '--threads', '1', ...access, '--broker', broker.url],
          ...['--database', postgres.url, '--node', node, '--state-dir', join(dir, node), '--http-port', String(port), ...words],
        ],
        { env, program },
      )
      running.set(node, started)
      return { url: `http://127.0.0.1:${port}`, process: started }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...running.values()].map((each) => each.kill()))
      await broker[Symbol.asyncDispose]()
      await postgres[Symbol.asyncDispose]()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** What a bridge tells of those that share its database; undefined: none of them is the primary. @param key API key, where one is needed */
export async function sharedDatabase(url: string, key?: string): Promise<SharedDatabase | undefined> {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const response = await fetch(`${url}/v1/nodes`, { headers }).catch(() => undefined)
  return response?.ok ? ((await response.json()) as SharedDatabase) : undefined
}
