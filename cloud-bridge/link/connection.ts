import type { WebSocket } from 'ws'
import type { Clock } from '../../core/base/clock.ts'
import type { ErrorCode } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { DeviceRates } from '../../core/policy/hat/chunk-advice.ts'
import {
  closeCodes,
  frameCostBytes,
  readAheadBytes,
  sessionBits,
  sessionHex,
  ToBridge,
  type ToDevice,
} from '../../core/protocol/messages.ts'
import { isProbe, maxProbeBytes } from '../../core/protocol/probe.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import type { Peer, Sessions } from '../hat/sessions.ts'
import { createProbeAnswers } from './probe-answers.ts'

export interface ConnectionOptions {
  readonly sessions: Sessions
  readonly bridge: string
  readonly modelId: string
  /** Most tokens drafted per round. */
  readonly draftLimit: number
  readonly heartbeatMs: number
  readonly helloTimeoutMs: number
  readonly clock: Clock
  readonly logger: Logger
  /** Whether who connects may be this device. */
  readonly mayBe: (device: string) => boolean
  /** A device has said hello. */
  readonly onHello: (connection: Connection, device: string) => void
}

export interface Connection {
  close(code: number, reason: ErrorCode): void
  /** Resolves when the connection is closed and its sessions have ended. */
  readonly done: Promise<void>
}

type Open = Extract<ToBridge, { type: 'open' }>
type Close = Extract<ToBridge, { type: 'close' }>

/** Replies that a device has not read, before it is no longer read from. */
const unreadBytes = 8 * 2 ** 20
/** Messages are a few hundred bytes; more is not even parsed. */
const maxTextBytes = 4096
const outOfTurn = 'hello comes first, and once'

/** One device's WebSocket: hello, open and close as JSON text, frames in binary. */
export function serveConnection(socket: WebSocket, options: ConnectionOptions): Connection {
  const { sessions, modelId, clock } = options
  let { logger } = options
  let peer: Peer | undefined
  let rates: DeviceRates | undefined
  let answerProbe: ((bytes: Uint8Array) => void) | undefined
  let heard = true
  let waitingBytes = 0
  const gone = new AbortController()

  // What can no longer be sent is lost with the connection, whose close is handled.
  const sent = () => balance()
  const say = (message: ToDevice) => socket.send(JSON.stringify(message), sent)
  const endSessions = () => (peer ? sessions.closePeer(peer) : undefined)

  /** Sessions end at once, the socket when the device has answered (or the heartbeat has given it up). */
  function close(code: number, reason: ErrorCode): void {
    socket.close(code, reason)
    void endSessions()
  }

  /** Stops reading from a device that sends faster than we compute, or that does not read what it is sent. */
  function balance(): void {
    if (socket.readyState !== socket.OPEN) return
    const full = waitingBytes > readAheadBytes || socket.bufferedAmount > unreadBytes
    if (full && !socket.isPaused) socket.pause()
    else if (!full && socket.isPaused) socket.resume()
  }

  /** A close reason is short: what was wrong is said before. */
  function refuse(code: ErrorCode, message: string): void {
    logger.warn({ code, reason: message }, 'message of a device refused')
    say({ type: 'refused', request: 0, code, message })
    if (code === 'PROTOCOL_VERSION') close(closeCodes.version, code)
    else close(closeCodes.invalid, 'REQUEST_INVALID')
  }

  /** Of what nobody foresaw, as memory that the system does not give: this device connects again, no other notices. */
  function failed(err: unknown): void {
    logger.error({ err }, 'device not served')
    close(closeCodes.goingAway, 'LINK_LOST')
  }

  function onText(bytes: Uint8Array): void {
    if (bytes.byteLength > maxTextBytes) return void refuse('MESSAGE_INVALID', `the message is longer than ${maxTextBytes} bytes`)
    const read = readMessage(ToBridge, bytes)
    if (read.kind === 'unreadable') return void refuse(read.code, `the bridge cannot read the message: ${read.reason}`)
    const { message } = read
    if (message.type === 'hello' && !peer && !options.mayBe(message.device)) {
      close(closeCodes.unauthorized, 'NOT_AUTHORIZED')
    } else if (message.type === 'hello' && !peer) {
      onHello(message.device)
    } else if (message.type === 'open' && peer) {
      openSession(peer, message).then(say).catch(failed)
    } else if (message.type === 'rates' && peer) {
      rates = message
    } else if (message.type === 'close' && peer) {
      closeSession(peer, message).catch(failed)
    } else {
      refuse('REQUEST_INVALID', outOfTurn)
    }
  }

  function onHello(device: string): void {
    peer = {
      device,
      get rates() {
        return rates
      },
      send: (bytes) => socket.send(bytes, sent),
      advise: (session, chunkTokens) => say({ type: 'advice', session: sessionHex(session), chunkTokens }),
    }
    logger = logger.child({ device })
    logger.info('device connected')
    answerProbe = createProbeAnswers({ clock, logger, send: peer.send })
    options.onHello(connection, device)
    say({ type: 'welcome', v: 1, bridge: options.bridge, modelId, probeBytes: maxProbeBytes })
  }

  async function closeSession(owner: Peer, { session, keep }: Close): Promise<void> {
    const handle = await sessions.close(owner, sessionBits(session), keep)
    if (keep !== undefined) say({ type: 'kept', session, ...(handle === undefined ? {} : { handle }) })
  }

  async function openSession(owner: Peer, { request, modelId: wanted, resume, wire }: Open): Promise<ToDevice> {
    if (wanted !== modelId)
      return {
        type: 'refused',
        request,
        code: 'BUNDLE_MISMATCH',
        message: `the device runs model ${wanted}, this bridge ${modelId}: build or copy one bundle for both`,
      }
    const result = await sessions.open(owner, { resume, wire })
    if (result.kind === 'refused') {
      const { code, message, retryAfterMs } = result
      return { type: 'refused', request, code, message, retryAfterMs }
    }
    const { session, kind: _, ...terms } = result
    return { type: 'opened', request, session: sessionHex(session), ...terms, draftLimit: options.draftLimit }
  }

  async function onFrame(bytes: Uint8Array): Promise<void> {
    if (!peer || !answerProbe) return refuse('REQUEST_INVALID', outOfTurn)
    if (isProbe(bytes)) return answerProbe(bytes)
    const cost = bytes.byteLength + frameCostBytes
    waitingBytes += cost
    await sessions.receive(peer, bytes)
    waitingBytes -= cost
    balance()
  }

  /** False when the connection has gone meanwhile. */
  const stillHereAfter = (ms: number) =>
    clock.sleep(ms, gone.signal).then(
      () => true,
      () => false,
    )

  async function expectHello(): Promise<void> {
    if ((await stillHereAfter(options.helloTimeoutMs)) && !peer) close(closeCodes.silent, 'REQUEST_INVALID')
  }

  async function heartbeat(): Promise<void> {
    while (await stillHereAfter(options.heartbeatMs)) {
      // Where it is we who do not read, silence proves nothing.
      const reading = waitingBytes <= readAheadBytes
      if (!heard && reading) {
        logger.warn({ heartbeatMs: options.heartbeatMs }, 'heartbeat missed, connection cut')
        return socket.terminate()
      }
      heard = false
      socket.ping()
    }
  }

  const done = new Promise<void>((resolve) => {
    socket.once('close', (code) => {
      gone.abort()
      logger.info({ code }, 'device disconnected')
      resolve(endSessions())
    })
  })
  socket.on('message', (data, isBinary) => {
    heard = true
    if (socket.readyState !== socket.OPEN) return
    // `nodebuffer` is the default: one buffer a message.
    if (!(data instanceof Uint8Array)) throw new Error('a WebSocket message is no buffer')
    if (isBinary) onFrame(data).catch(failed)
    else onText(data)
    balance()
  })
  // Each is answered by a pong, which waits for its reader like everything else.
  socket.on('ping', balance)
  socket.on('pong', () => {
    heard = true
  })
  socket.on('error', (err) => logger.warn({ err }, 'WebSocket error'))
  void expectHello()
  void heartbeat()

  const connection: Connection = { close, done }
  return connection
}
