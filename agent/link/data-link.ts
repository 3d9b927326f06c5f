import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Random } from '../../core/base/random.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { Credentials } from '../identity/credentials.ts'
import { DataConnection, unreachableHint } from './data-connection.ts'
import { keepConnected, type Reconnector } from './keep-connected.ts'
import type { LinkSession, SessionOptions } from './link-session.ts'
import { withTimeout } from './with-timeout.ts'

/** How long somebody who asks for a session waits for a connection that is being made. */
const patienceMs = 3_000

export interface DataLinkOptions {
  readonly device: string
  readonly birth: number
  readonly speed: DeviceSpeed
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** For a bridge that this device has enrolled at. */
  readonly credentials?: Credentials | undefined
  /** The connection broke; it is being made anew. */
  readonly onLost?: () => void
}

/** The device's data plane: one connection to a bridge, kept up for good, with a session per answer. */
export interface DataLink {
  readonly connected: boolean
  /** Connected, to a bridge that has not left anybody without an answer lately. */
  readonly isResponsive: boolean
  /** Of the connection that stands. */
  readonly rates: LinkRates | undefined
  /** Where the bridge's data plane is; the connection to another one is closed. */
  connectTo(url: string): void
  /** Cuts the wait for the next attempt to connect short. */
  retryNow(): void
  /** @throws BrimError BRIDGE_UNREACHABLE, BUNDLE_MISMATCH, SESSION_REFUSED, LINK_LOST, CANCELED */
  open(modelId: string, signal: AbortSignal, wish?: SessionOptions): Promise<LinkSession>
  close(): Promise<void>
}

export function createDataLink(options: DataLinkOptions): DataLink {
  const { clock } = options
  let target: { url: string; persistent: Reconnector } | undefined
  let connection: DataConnection | undefined
  /** Targets that were given up and still wind down. */
  const leaving = new Set<Promise<void>>()

  function start(url: string): { url: string; persistent: Reconnector } {
    const persistent = keepConnected({
      ...options,
      name: 'data plane',
      async connect(signal) {
        const token = await options.credentials?.token(signal)
        const socket = await options.credentials?.dial(url, signal)
        const made = await DataConnection.connect({ ...options, url, token, socket }, signal)
        if (signal.aborted) made.close()
        else keep(made, url)
        return made
      },
    })
    persistent.start()
    return { url, persistent }
  }

  function keep(made: DataConnection, url: string): void {
    connection = made
    void made.gone.then(() => {
      if (connection !== made) return
      connection = undefined
      options.onLost?.()
    })
    options.logger.info({ url }, 'data plane connected')
  }

  function leave(): void {
    const left = target
    const open = connection
    target = undefined
    connection = undefined
    if (!left) return
    const stopped = left.persistent.stop()
    open?.close()
    leaving.add(stopped)
    void stopped.then(() => leaving.delete(stopped))
  }

  return {
    get connected() {
      return connection !== undefined
    },
    get isResponsive() {
      return connection?.answers === true
    },
    get rates() {
      return connection?.rates
    },
    connectTo(url) {
      if (url === target?.url) return
      leave()
      target = start(url)
    },
    retryNow() {
      if (!connection) void target?.persistent.retryNow()
    },
    async open(modelId, signal, wish) {
      if (!connection && target) await withTimeout(patienceMs, target.persistent.retryNow(), clock, signal)
      if (!connection) throw unreachable(target?.url)
      return connection.open(modelId, signal, wish)
    },
    async close() {
      leave()
      await Promise.all(leaving)
    },
  }
}

function unreachable(url: string | undefined): BrimError {
  if (url === undefined) return new BrimError('BRIDGE_UNREACHABLE', 'no bridge is known yet', { hint: unreachableHint })
  return new BrimError('BRIDGE_UNREACHABLE', `the bridge's data plane ${url} cannot be reached`, { hint: unreachableHint })
}
