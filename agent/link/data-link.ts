import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Random } from '../../core/base/random.ts'
import { withTimeout } from '../../core/base/with-timeout.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { DataConnection } from './data-connection.ts'
import { bridgeUnreachable, dataPlaneUnreachable } from './link-errors.ts'
import type { LinkSession, SessionOptions } from './link-session.ts'
import type { LinkCredentials } from './ports.ts'
import { Reconnector } from './reconnector.ts'

/** How long a session request waits for a connection that is being made. */
const connectWaitMs = 3_000

export interface DataLinkOptions {
  readonly device: string
  readonly birth: number
  readonly speed: DeviceSpeed
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Absent: the device has not enrolled there and connects without a token. */
  readonly credentials?: LinkCredentials | undefined
  /** Called when the connection was lost; the link reconnects by itself. */
  readonly onLost?: () => void
}

/** The device's data plane: one connection to a bridge, maintained until `close`. Each answer opens a session on it. */
export interface DataLink {
  readonly connected: boolean
  /** Connected to a bridge that responds to session requests. */
  readonly isResponsive: boolean
  /** Of the present connection. */
  readonly rates: LinkRates | undefined
  /** Connects to the data plane at this URL, and closes the connection to any other. */
  connectTo(url: string): void
  /** Ends the wait for the next attempt to connect. */
  retryNow(): void
  /** @throws BrimError BRIDGE_UNREACHABLE, BUNDLE_MISMATCH, SESSION_REFUSED, LINK_LOST, CANCELED */
  open(modelId: string, signal: AbortSignal, options?: SessionOptions): Promise<LinkSession>
  close(): Promise<void>
}

interface Target {
  readonly url: string
  readonly reconnector: Reconnector
}

export function createDataLink(options: DataLinkOptions): DataLink {
  const { clock, credentials, logger, onLost } = options
  let target: Target | undefined
  let connection: DataConnection | undefined
  /** Former targets whose connection has not closed yet. */
  const closing = new Set<Promise<void>>()

  async function connect(url: string, signal: AbortSignal): Promise<DataConnection> {
    const token = await credentials?.token(signal)
    const socket = await credentials?.dial(url, signal)
    const opened = await DataConnection.connect({ ...options, url, token, socket }, signal)
    if (signal.aborted) {
      opened.close()
      return opened
    }
    connection = opened
    void opened.closed.then(() => {
      if (connection !== opened) return
      connection = undefined
      onLost?.()
    })
    logger.info({ url }, 'data plane connected')
    return opened
  }

  function disconnect(): void {
    if (!target) return
    const stopped = target.reconnector.stop()
    connection?.close()
    target = undefined
    connection = undefined
    closing.add(stopped)
    void stopped.then(() => closing.delete(stopped))
  }

  return {
    get connected() {
      return connection !== undefined
    },
    get isResponsive() {
      return connection?.isResponsive === true
    },
    get rates() {
      return connection?.rates
    },
    connectTo(url) {
      if (url === target?.url) return
      disconnect()
      const reconnector = new Reconnector({ ...options, name: 'data plane', connect: (signal) => connect(url, signal) })
      target = { url, reconnector }
      reconnector.start()
    },
    retryNow() {
      if (!connection) void target?.reconnector.retryNow()
    },
    async open(modelId, signal, sessionOptions) {
      if (!target) throw bridgeUnreachable('no bridge is known yet')
      if (!connection) await withTimeout(connectWaitMs, target.reconnector.retryNow(), clock, signal)
      if (!connection) throw dataPlaneUnreachable(target.url)
      return connection.open(modelId, signal, sessionOptions)
    },
    async close() {
      disconnect()
      await Promise.all(closing)
    },
  }
}
