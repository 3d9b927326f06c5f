import { type ChildProcess, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { projectRoot } from '../../core/kit/base/version.ts'
import { freePort } from '../../lab/cluster/free-port.ts'
import { endProcess, startListening } from '../../lab/cluster/listening-process.ts'
import { brimOutput } from '../../lab/cluster/processes.ts'

/** The configuration that docs/brokers.md recommends to operators. */
const recommendedConfig = fileURLToPath(new URL('docs/brokers/nats.conf', projectRoot))
const healthAttempts = 500
const betweenAttemptsMs = 100

/** A real NATS server, or a cluster of three, as processes on free loopback ports. */
export interface Nats extends AsyncDisposable {
  /** MQTT URLs of the nodes, separated by commas. */
  readonly url: string
  readonly nodes: readonly NatsNode[]
  /** For --broker-admin-file. */
  readonly adminFile: string
}

interface NatsNode {
  /** Its MQTT URL. */
  readonly url: string
  /** SIGKILL; resolves when it has ended. */
  kill(): Promise<void>
  /** Starts it again with its files; resolves when it has joined its cluster. */
  start(): Promise<void>
}

/** Why this machine cannot run NATS; undefined: it can. */
export const natsProblem = (): string | undefined =>
  spawnSync('nats-server', ['--version']).error === undefined
    ? undefined
    : 'nats-server is not installed (apt-get install nats-server)'

/** Paths of PEM files. */
interface NatsTls {
  readonly cert: string
  readonly key: string
}

/**
 * Starts NATS with the recommended configuration, in a temporary folder.
 * @param tls of the listeners for MQTT and for NATS clients; absent: they are plain
 * @throws BrimError PREREQUISITE_MISSING
 */
export async function startNats(count: 1 | 3, tls?: NatsTls): Promise<Nats> {
  const problem = natsProblem()
  if (problem !== undefined)
    throw new BrimError('PREREQUISITE_MISSING', problem, { hint: 'install it, or choose another broker' })
  const dir = await mkdtemp(join(tmpdir(), 'brim-nats-'))
  const places = await Promise.all(Array.from({ length: count }, () => freePlace()))
  const servers = places.flatMap(({ nats }) => ['--server', `${tls ? 'tls' : 'nats'}://127.0.0.1:${nats}`])
  await brimOutput(['bridge', 'nats-keys', dir, ...servers], { env: {}, signal: new AbortController().signal })
  const running = new Map<number, ChildProcess>()
  const nodes = await Promise.all(
    places.map(async (place, at): Promise<NatsNode> => {
      const folder = join(dir, `node-${at + 1}`)
      await mkdir(folder)
      const config = join(folder, 'nats.conf')
      await writeFile(config, configOf(`node-${at + 1}`, folder, place, places, tls))
      return {
        url: `${tls ? 'mqtts' : 'mqtt'}://127.0.0.1:${place.mqtt}`,
        async kill() {
          const child = running.get(at)
          if (child) await endProcess(child, 'SIGKILL')
        },
        async start() {
          running.set(at, await startListening(['nats-server', '-c', config], place.mqtt))
          await untilHealthy(place.http)
        },
      }
    }),
  )
  const dispose = async () => {
    await Promise.all(nodes.map((node) => node.kill()))
    await rm(dir, { recursive: true, force: true })
  }
  try {
    await Promise.all(nodes.map((node) => node.start()))
  } catch (error) {
    await dispose()
    throw error
  }
  return { url: nodes.map(({ url }) => url).join(','), nodes, adminFile: join(dir, 'admin'), [Symbol.asyncDispose]: dispose }
}

/** Ports of a node. */
interface Place {
  readonly mqtt: number
  readonly nats: number
  readonly route: number
  readonly http: number
}

async function freePlace(): Promise<Place> {
  const [mqtt, nats, route, http] = await Promise.all([freePort(), freePort(), freePort(), freePort()])
  return { mqtt, nats, route, http }
}

function configOf(name: string, folder: string, own: Place, all: readonly Place[], tls: NatsTls | undefined): string {
  const files = tls && `tls { cert_file: "${tls.cert}", key_file: "${tls.key}" }`
  const routes = all.map(({ route }) => `nats://127.0.0.1:${route}`).join(', ')
  const config = readFileSync(recommendedConfig, 'utf8')
    .replace(/^server_name: .*$/m, `server_name: ${name}\nhttp: 127.0.0.1:${own.http}\n${files ?? ''}`)
    .replace(/^ {2}#tls .*$/m, files ?? '')
    .replace(/^ {2}listen: 127.0.0.1:1883$/m, `  listen: 127.0.0.1:${own.mqtt}`)
    .replace(/^listen: .*$/m, `listen: 127.0.0.1:${own.nats}`)
    .replace(/^ {2}listen: 127.0.0.1:6222$/m, `  listen: 127.0.0.1:${own.route}`)
    .replace(/^ {2}routes: .*$/m, `  routes: [${routes}]`)
    .replaceAll('/var/lib/nats', folder)
    .replace('include brim-accounts.conf', 'include ../brim-accounts.conf')
  return all.length > 1 ? config : config.replace(/^cluster \{\n(?: .*\n)*\}\n/m, '')
}

/** Until it has joined its cluster. It may store messages only later; clients try again. @throws Error */
async function untilHealthy(port: number): Promise<void> {
  for (let attempt = 0; attempt < healthAttempts; attempt++) {
    const response = await fetch(`http://127.0.0.1:${port}/healthz?js-server-only=true`).catch(() => undefined)
    if (response?.ok) return
    await systemClock.sleep(betweenAttemptsMs)
  }
  throw new Error('a node of NATS has not become healthy')
}
