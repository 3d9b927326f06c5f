import type { WebSocket } from 'ws'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { ErrorCode } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { DeviceRates } from '../../core/policy/hat/chunk-advice.ts'
import type { Evidence } from '../../core/wire/protocol/attestation.ts'
import {
  closeCodes,
  frameCostBytes,
  readAheadBytes,
  sessionBits,
  sessionHex,
  ToBridge,
  type ToDevice,
} from '../../core/wire/protocol/messages.ts'
import { isProbe, maxProbeBytes } from '../../core/wire/protocol/probe.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import type { Peer, Sessions } from '../hat/sessions.ts'
import { createProbeAnswers } from './probe-answers.ts'

export interface ConnectionOptions {
  readonly sessions: Sessions
  readonly bridge: string
  /** Of the bridge's first bundle; `noModelId`: it serves none. */
  readonly modelId: string
  /** Maximum tokens that a device drafts per round. */
  readonly draftLimit: number
  readonly heartbeatMs: number
  readonly helloTimeoutMs: number
  readonly clock: Clock
  readonly logger: Logger
  /** Whether the client of this connection may connect as this device. */
  readonly authorize: (device: string) => boolean
  /** Evidence for a device with this challenge; undefined: there is none. */
  readonly attest: (nonce: string) => Promise<Evidence | undefined>
  readonly onHello: (connection: Connection, device: string) => void
}

export interface Connection {
  close(code: number, reason: ErrorCode): void
  /** Resolves when the connection is closed and its sessions have ended. */
  readonly done: Promise<void>
}

type Hello = Extract<ToBridge, { type: 'hello' }>
type Open = Extract<ToBridge, { type: 'open' }>
type Close = Extract<ToBridge, { type: 'close' }>

/** The bridge stops reading from a device that has not read this many bytes of replies. */
const maxUnreadBytes = 8 * 2 ** 20
/** Messages have a few hundred bytes; a longer one is not parsed. */
const maxTextBytes = 4096
const outOfOrder = 'hello must be the first message, and is sent once'

/** One device's WebSocket: hello, open and close as JSON text, frames in binary. */
export function serveConnection(socket: WebSocket, options: ConnectionOptions): Connection {
  const { sessions, modelId, clock } = options
  let { logger } = options
  let peer: Peer | undefined
  let rates: DeviceRates | undefined
  let answerProbe: ((bytes: Uint8Array) => void) | undefined
  /** Whether anything has arrived since the last ping. */
  let isAlive = true
  let pingedMs = 0
  let rttMs: number | undefined
  /** Bytes of frames that wait for their turn or are being computed. */
  let pendingBytes = 0
  const closed = new AbortController()

  // An error here means that the socket is closing, which its 'close' event handles.
  const onSent = () => controlFlow()
  const send = (message: ToDevice) => socket.send(JSON.stringify(message), onSent)
  const endSessions = () => (peer ? sessions.closePeer(peer) : undefined)

  /** Ends the sessions at once; the socket closes when the device answers, or when a heartbeat is missed. */
  function close(code: number, reason: ErrorCode): void {
    socket.close(code, reason)
    void endSessions()
  }

  /** Stops reading from a device that sends faster than the engine computes, or that does not read its replies. */
  function controlFlow(): void {
    if (socket.readyState !== socket.OPEN) return
    const isFull = pendingBytes > readAheadBytes || socket.bufferedAmount > maxUnreadBytes
    if (isFull && !socket.isPaused) socket.pause()
    else if (!isFull && socket.isPaused) socket.resume()
  }

  /** Sends the reason as a message first: the reason of a close frame is limited to 123 bytes. */
  function refuse(code: ErrorCode, message: string): void {
    logger.warn({ code, reason: message }, 'message of a device refused')
    send({ type: 'refused', request: 0, code, message })
    if (code === 'PROTOCOL_VERSION') close(closeCodes.version, code)
    else close(closeCodes.invalid, 'REQUEST_INVALID')
  }

  /** For unexpected errors, such as a failed allocation: this device reconnects, the others are not affected. */
  function fail(err: unknown): void {
    logger.error({ err }, 'connection closed after an internal error')
    close(closeCodes.goingAway, 'LINK_LOST')
  }

  function onText(bytes: Uint8Array): void {
    if (bytes.byteLength > maxTextBytes) return void refuse('MESSAGE_INVALID', `the message is longer than ${maxTextBytes} bytes`)
    const read = readMessage(ToBridge, bytes)
    if (read.kind === 'unreadable') return void refuse(read.code, `the bridge cannot read the message: ${read.reason}`)
    const { message } = read
    if (message.type === 'hello' && !peer && !options.authorize(message.device)) {
      close(closeCodes.unauthorized, 'NOT_AUTHORIZED')
    } else if (message.type === 'hello' && !peer) {
      onHello(message).catch(fail)
    } else if (message.type === 'open' && peer) {
      openSession(peer, message).then(send).catch(fail)
    } else if (message.type === 'rates' && peer) {
      rates = message
    } else if (message.type === 'reading' && peer) {
      sessions.report(peer, sessionBits(message.session), message.tokensPerS, message.undelivered)
    } else if (message.type === 'close' && peer) {
      closeSession(peer, message).catch(fail)
    } else {
      refuse('REQUEST_INVALID', outOfOrder)
    }
  }

  async function onHello({ device, nonce }: Hello): Promise<void> {
    peer = {
      device,
      get rates() {
        return rates
      },
      get rttMs() {
        return rttMs
      },
      send: (bytes) => socket.send(bytes, onSent),
      advise: (session, chunkTokens) => send({ type: 'advice', session: sessionHex(session), chunkTokens }),
    }
    logger = logger.child({ device })
    logger.info('device connected')
    answerProbe = createProbeAnswers({ clock, logger, send: peer.send })
    options.onHello(connection, device)
    send({
      type: 'welcome',
      v: 1,
      bridge: options.bridge,
      modelId,
      probeBytes: maxProbeBytes,
      early: true,
      codings: [...sessions.codings],
      evidence: nonce === undefined ? undefined : await options.attest(nonce),
    })
  }

  async function closeSession(owner: Peer, { session, keep }: Close): Promise<void> {
    const handle = await sessions.close(owner, sessionBits(session), keep)
    if (keep !== undefined) send({ type: 'kept', session, ...(handle === undefined ? {} : { handle }) })
  }

  async function openSession(
    owner: Peer,
    { request, modelId: requested, resume, wire, session: chosen, traceparent }: Open,
  ): Promise<ToDevice> {
    const id = chosen && { id: sessionBits(chosen) }
    const result = await sessions.open(owner, requested, { resume, wire, traceparent, ...id })
    if (result.kind === 'refused') {
      const { kind: _, ...reason } = result
      return { type: 'refused', request, ...reason }
    }
    const { session, kind: _, ...terms } = result
    return { type: 'opened', request, session: sessionHex(session), ...terms, draftLimit: options.draftLimit, reading: true }
  }

  async function onFrame(bytes: Uint8Array): Promise<void> {
    if (!peer || !answerProbe) return refuse('REQUEST_INVALID', outOfOrder)
    if (isProbe(bytes)) return answerProbe(bytes)
    const cost = bytes.byteLength + frameCostBytes
    pendingBytes += cost
    await sessions.receive(peer, bytes)
    pendingBytes -= cost
    controlFlow()
  }

  /** @returns false when the connection has closed meanwhile */
  const isOpenAfter = (ms: number) =>
    clock.sleep(ms, closed.signal).then(
      () => true,
      () => false,
    )

  async function requireHello(): Promise<void> {
    if ((await isOpenAfter(options.helloTimeoutMs)) && !peer) close(closeCodes.silent, 'REQUEST_INVALID')
  }

  async function sendHeartbeats(): Promise<void> {
    while (await isOpenAfter(options.heartbeatMs)) {
      // Silence proves nothing while the bridge itself does not read.
      const isReading = pendingBytes <= readAheadBytes
      if (!isAlive && isReading) {
        logger.warn({ heartbeatMs: options.heartbeatMs }, 'heartbeat missed, connection closed')
        return socket.terminate()
      }
      isAlive = false
      pingedMs = clock.nowMs()
      socket.ping()
    }
  }

  const done = new Promise<void>((resolve) => {
    socket.once('close', (code) => {
      closed.abort()
      logger.info({ code }, 'device disconnected')
      resolve(endSessions())
    })
  })
  socket.on('message', (data, isBinary) => {
    isAlive = true
    if (socket.readyState !== socket.OPEN) return
    // ws delivers one Buffer per message by default (binaryType 'nodebuffer').
    if (!(data instanceof Uint8Array)) throw new Error('a WebSocket message was not delivered as a Buffer')
    if (isBinary) onFrame(data).catch(fail)
    else onText(data)
    controlFlow()
  })
  // ws answers each ping with a pong, which is buffered like any reply.
  socket.on('ping', controlFlow)
  socket.on('pong', () => {
    isAlive = true
    rttMs = clock.nowMs() - pingedMs
  })
  socket.on('error', (err) => logger.warn({ err }, 'WebSocket error'))
  void requireHello()
  void sendHeartbeats()

  const connection: Connection = { close, done }
  return connection
}
