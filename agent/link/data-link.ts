import { BrimError } from '../../core/kit/base/errors.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { DataConnection, type DataConnectionOptions } from './data-connection.ts'
import { bridgeUnreachable, dataPlaneUnreachable } from './link-errors.ts'
import type { LinkSession, LinkSessionOptions } from './link-session.ts'
import type { LinkCredentials } from './ports.ts'
import { Reconnector, type ReconnectorOptions } from './reconnector.ts'

/** How long a session request waits for a connection that is being made. */
const connectWaitMs = 3_000

export interface DataLinkOptions
  extends Omit<DataConnectionOptions, 'url' | 'token' | 'socket'>,
    Pick<ReconnectorOptions, 'reconnectMaxS' | 'fleetSize' | 'progress'> {
  /** Absent: the device has not enrolled there and connects without a token. */
  readonly credentials?: LinkCredentials | undefined
  /** Called when the connection was lost; the link reconnects by itself. */
  readonly onLost?: () => void
}

/** The device's data plane: one connection to a bridge, maintained until `close`. Each answer opens a session on it. */
export class DataLink {
  readonly #options: DataLinkOptions
  #target: { readonly url: string; readonly reconnector: Reconnector } | undefined
  #connection: DataConnection | undefined
  /** Why the last attempt to connect found a bridge that may get no rows. */
  #refusal: BrimError | undefined
  /** Former targets whose connection has not closed yet. */
  readonly #closing = new Set<Promise<void>>()

  constructor(options: DataLinkOptions) {
    this.#options = options
  }

  get connected(): boolean {
    return this.#connection !== undefined
  }

  /** Connected to a bridge that responds to session requests. */
  get isResponsive(): boolean {
    return this.#connection?.isResponsive === true
  }

  /** The bridge is there, but its evidence was refused. */
  get refusal(): BrimError | undefined {
    return this.#refusal
  }

  /** Of the present connection. */
  get rates(): LinkRates | undefined {
    return this.#connection?.rates
  }

  /** Connects to the data plane at this URL, and closes the connection to any other. */
  connectTo(url: string): void {
    if (url === this.#target?.url) return
    this.#disconnect()
    const connect = (signal: AbortSignal) =>
      this.#connect(url, signal).catch((error: unknown) => {
        if (!signal.aborted)
          this.#refusal = error instanceof BrimError && error.code === 'ATTESTATION_REFUSED' ? error : undefined
        throw error
      })
    const reconnector = new Reconnector({ ...this.#options, name: 'data plane', connect })
    this.#target = { url, reconnector }
    reconnector.start()
  }

  /** Ends the wait for the next attempt to connect. */
  retryNow(): void {
    if (!this.#connection) void this.#target?.reconnector.retryNow()
  }

  /** @throws BrimError BRIDGE_UNREACHABLE, ATTESTATION_REFUSED, BUNDLE_MISMATCH, SESSION_REFUSED, LINK_LOST, CANCELED */
  async open(modelId: string, signal: AbortSignal, options?: LinkSessionOptions): Promise<LinkSession> {
    const target = this.#target
    if (!target) throw bridgeUnreachable('no bridge is known yet')
    if (!this.#connection) await withTimeout(connectWaitMs, target.reconnector.retryNow(), this.#options.clock, signal)
    if (!this.#connection) throw this.#refusal ?? dataPlaneUnreachable(target.url)
    return this.#connection.open(modelId, signal, options)
  }

  async close(): Promise<void> {
    this.#disconnect()
    await Promise.all(this.#closing)
  }

  async #connect(url: string, signal: AbortSignal): Promise<DataConnection> {
    const { credentials, logger, onLost } = this.#options
    const token = await credentials?.token(url, signal)
    const socket = await credentials?.dial(url, signal)
    const opened = await DataConnection.connect({ ...this.#options, url, token, socket }, signal)
    if (signal.aborted) {
      opened.close()
      return opened
    }
    this.#refusal = undefined
    this.#connection = opened
    void opened.closed.then(() => {
      if (this.#connection !== opened) return
      this.#connection = undefined
      onLost?.()
    })
    logger.info({ url }, 'data plane connected')
    return opened
  }

  #disconnect(): void {
    if (!this.#target) return
    const stopped = this.#target.reconnector.stop()
    this.#connection?.close()
    this.#refusal = undefined
    this.#target = undefined
    this.#connection = undefined
    this.#closing.add(stopped)
    void stopped.then(() => this.#closing.delete(stopped))
  }
}
