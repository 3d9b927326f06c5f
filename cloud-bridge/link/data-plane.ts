import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import { WebSocketServer } from 'ws'
import { sampledWarnings } from '../../core/kit/base/sampled-warnings.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import { attestedData, type Evidence } from '../../core/wire/protocol/attestation.ts'
import { closeCodes } from '../../core/wire/protocol/messages.ts'
import { maxProbeBytes } from '../../core/wire/protocol/probe.ts'
import type { Attester } from '../attestation/attester.ts'
import { refuseUpgrade } from '../http/refuse-upgrade.ts'
import type { Upgrade } from '../http/server.ts'
import { allows } from '../identity/access.ts'
import { bearerOf, type Gate } from '../identity/gate.ts'
import { type Connection, type ConnectionOptions, serveConnection } from './connection.ts'

export interface DataPlane {
  readonly upgrade: Upgrade
  /** Open connections. */
  readonly count: number
  /** Closes this device's connection. */
  disconnect(device: string): void
  /**
   * Proof of identity is required from now on: closes the connections without it.
   * @returns the devices that these claimed to be
   */
  dropUnproven(): string[]
  /** Closes the connections of up to `max` devices, which connect again, perhaps elsewhere. @param isUrgent also of those with sessions, which replay them */
  moveAway(max: number, isUrgent: boolean): void
  /** Closes every connection; resolves when their sessions have ended. */
  close(): Promise<void>
}

/** A device that does not answer the bridge's close within this time is disconnected. */
const closeTimeoutMs = 1_000
/** Of a report; a device waits 10 s for its welcome. */
const evidenceTimeoutMs = 5_000

/** The devices' WebSocket connections: one per device, so that a new connection replaces the old one. */
export function createDataPlane(
  options: Omit<ConnectionOptions, 'onHello' | 'authorize' | 'attest'> & {
    readonly gate?: Gate | undefined
    /** Absent: the bridge runs in no confidential virtual machine. */
    readonly attester?: Attester | undefined
    /** Size of the largest frame of rows; a larger message ends its connection before it is read. */
    readonly maxFrameBytes: number
  },
): DataPlane {
  const { gate, attester, clock, maxFrameBytes } = options
  const server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    // A probe that is a little too large is answered by a fault.
    maxPayload: Math.max(maxFrameBytes, 2 * maxProbeBytes),
    clientTracking: true,
  })
  // Clients can cause these as often as they like.
  const warn = sampledWarnings(options.logger, clock)
  /** Connection → whether it has a right to be open now, as far as it is known. */
  const connections = new Map<Connection, () => boolean>()
  const byDevice = new Map<string, Connection>()

  /** Evidence for a device that has sent this challenge on this connection; undefined: there is none. */
  async function attest(socket: Duplex, nonce: string): Promise<Evidence | undefined> {
    const publicKey = socket instanceof TLSSocket ? socket.getX509Certificate()?.publicKey : undefined
    if (!attester || !publicKey) {
      const lacks = attester ? 'TLS' : 'a confidential virtual machine'
      warn({ lacks }, 'no evidence for a device that asks for it')
      return undefined
    }
    const expired = new AbortController()
    // A device that connects again and again waits for one report at a time.
    socket.once('close', () => expired.abort())
    try {
      const evidence = attester.evidenceOf(attestedData(nonce, publicKey), expired.signal)
      if (await withTimeout(evidenceTimeoutMs, evidence, clock)) return await evidence
      expired.abort()
      warn({ timeoutMs: evidenceTimeoutMs }, 'no evidence for a device: the report takes too long')
    } catch (err) {
      warn({ err }, 'no evidence for a device: the report failed')
    }
    return undefined
  }

  async function terminateLate(signal: AbortSignal): Promise<void> {
    await clock.sleep(closeTimeoutMs, signal)
    for (const socket of server.clients) socket.terminate()
  }

  return {
    upgrade(request, socket, head, { address, onAccepted }) {
      const token = bearerOf(request.headers.authorization) ?? ''
      if (gate?.authRequired && gate.subjectOf(token) === undefined) {
        warn({ address }, 'data connection refused: no valid token')
        return refuseUpgrade(socket, '401 Unauthorized')
      }
      onAccepted()
      server.handleUpgrade(request, socket, head, (webSocket) => {
        // Checked again: the device may have been revoked since the upgrade.
        const authorize = (device: string) =>
          !gate?.authRequired || allows(gate.subjectOf(token) ?? '', { to: 'connect', device })
        let connectedAs: string | undefined
        const connection = serveConnection(webSocket, {
          ...options,
          logger: options.logger.child({ address }),
          attest: (nonce) => attest(socket, nonce),
          authorize(device) {
            const isAllowed = authorize(device)
            if (!isAllowed) warn({ address, device }, 'device refused: its token belongs to another device')
            return isAllowed
          },
          onHello(own, device) {
            connectedAs = device
            connections.set(own, () => authorize(device))
            byDevice.get(device)?.close(closeCodes.replaced, 'LINK_LOST')
            byDevice.set(device, own)
          },
        })
        connections.set(connection, () => !gate?.authRequired || gate.subjectOf(token) !== undefined)
        void connection.done.then(() => {
          connections.delete(connection)
          if (connectedAs !== undefined && byDevice.get(connectedAs) === connection) byDevice.delete(connectedAs)
        })
      })
    },
    get count() {
      return connections.size
    },
    moveAway(max, isUrgent) {
      const movable = [...byDevice].filter(([device]) => isUrgent || options.sessions.countOf(device) === 0)
      for (const [, connection] of movable.slice(0, max)) connection.close(closeCodes.goingAway, 'LINK_LOST')
    },
    disconnect(device) {
      byDevice.get(device)?.close(closeCodes.unauthorized, 'NOT_AUTHORIZED')
    },
    dropUnproven() {
      const unproven = new Set([...connections].flatMap(([connection, isProven]) => (isProven() ? [] : [connection])))
      const devices = [...byDevice].flatMap(([device, connection]) => (unproven.has(connection) ? [device] : []))
      for (const connection of unproven) connection.close(closeCodes.unauthorized, 'NOT_AUTHORIZED')
      return devices
    },
    async close() {
      // Refuses upgrades first: a device whose connection closes may reconnect before the last one has closed.
      server.close()
      const open = [...connections.keys()]
      for (const connection of open) connection.close(closeCodes.goingAway, 'LINK_LOST')
      const allClosed = new AbortController()
      terminateLate(allClosed.signal).catch(() => {})
      await Promise.all(open.map((connection) => connection.done))
      allClosed.abort()
    },
  }
}
