import type { TLSSocket } from 'node:tls'
import { type RawData, WebSocket } from 'ws'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Random } from '../../core/base/random.ts'
import { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { hasMoved } from '../../core/policy/hat/chunk-size.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { decodeFrame, maxFrameBytes, peekFrame, type Wire } from '../../core/protocol/frame.ts'
import { sessionBits, sessionHex, type ToBridge, ToDevice } from '../../core/protocol/messages.ts'
import { isProbe } from '../../core/protocol/probe.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import { LinkProbe, probeBytes } from './link-probe.ts'
import { type LinkSession, OpenSession, remoteError, type SessionOptions } from './link-session.ts'
import { SilenceWatch } from './silence-watch.ts'
import { webSocketBytes } from './web-socket-bytes.ts'

const handshakeMs = 10_000
/**
 * Silence for so long after a ping of ours means that the other side is gone, whatever it owes. More than the 15 s between
 * the bridge's own pings: one that has more of our frames than it can compute reads no pings for a while, but sends them.
 */
const heartbeatMs = 20_000
/** How long a bridge may take to open a session. */
const openTimeoutMs = 5_000
/** About what `opened` takes. */
const openedBytes = 256
/** How long a bridge may take to answer our close before it is cut off. */
const closeTimeoutMs = 1_000

export interface DataConnectionOptions {
  readonly url: string
  readonly device: string
  readonly birth: number
  /** Bearer token, for a bridge that asks for one. */
  readonly token?: string | undefined
  /** Connected already; absent: connects by itself. */
  readonly socket?: TLSSocket | undefined
  /** What this device computes, as measured; the bridge sizes its chunks by it. */
  readonly speed: DeviceSpeed
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

type Welcome = Extract<ToDevice, { type: 'welcome' }>
type Opened = Extract<ToDevice, { type: 'opened' }>
type Advice = Extract<ToDevice, { type: 'advice' }>
type Refused = Extract<ToDevice, { type: 'refused' }>

interface Opening {
  readonly wire: Wire
  readonly bytesUp: number
  resolve(session: LinkSession): void
  reject(error: unknown): void
  abandoned: boolean
}

/** One WebSocket connection to a bridge, with many sessions on it. */
export class DataConnection {
  /** Resolves, with the reason, when the connection is gone; its sessions have been told before. */
  readonly gone: Promise<BrimError>
  readonly #socket: WebSocket
  readonly #options: DataConnectionOptions
  readonly #sessions = new Map<bigint, OpenSession>()
  /** By session: who waits for the handle under which it is kept. */
  readonly #keeping = new Map<string, (handle: string | undefined) => void>()
  readonly #opening = new Map<number, Opening>()
  readonly #ended = new AbortController()
  #onWelcome: ((answer: Welcome | BrimError) => void) | undefined
  #requests = 0
  #heard = true
  /** Sessions asked for in vain since it was heard of last. */
  #unanswered = 0
  /** Measured on this connection: another has its own. */
  readonly #rates = new LinkRates()
  /** What the bridge was told last. */
  #told: { upBytesPerS: number; prefillTokensPerS: number } | undefined
  #pingedMs: number | undefined
  readonly #silence: SilenceWatch
  #failure: Error | undefined
  readonly #probe: LinkProbe
  #sentMs: number

  private constructor(options: DataConnectionOptions) {
    const { socket } = options
    this.#options = options
    this.#sentMs = options.clock.nowMs()
    this.#probe = new LinkProbe({
      ...options,
      rates: this.#rates,
      state: () => ({ sessions: this.#sessions.size + this.#opening.size, sentMs: this.#sentMs }),
      send: (frame) => this.#send(frame),
    })
    this.#socket = new WebSocket(options.url, {
      perMessageDeflate: false,
      maxPayload: maxFrameBytes,
      handshakeTimeout: handshakeMs,
      ...(socket ? { createConnection: () => socket } : {}),
      ...(options.token === undefined ? {} : { headers: { authorization: `Bearer ${options.token}` } }),
    })
    this.#socket.binaryType = 'nodebuffer'
    this.#socket.on('message', (data, isBinary) => this.#receive(data, isBinary))
    this.#socket.on('ping', () => this.#hear())
    this.#socket.on('pong', () => this.#onPong())
    this.#socket.on('error', (error) => {
      this.#failure = error
    })
    this.gone = new Promise((resolve) => {
      this.#socket.once('close', (code, reason) => {
        const error = lost(code, reason.toString(), this.#failure)
        this.#end(error)
        resolve(error)
      })
    })
    const [ping, giveUp] = [() => this.#ping(), () => this.#giveUp()]
    this.#silence = new SilenceWatch({ clock: options.clock, rates: this.#rates, ask: ping, giveUp, ended: this.#ended.signal })
  }

  /**
   * Connects and introduces the device.
   * @throws BrimError BRIDGE_UNREACHABLE, or the code with which the bridge refused
   */
  static async connect(options: DataConnectionOptions, signal: AbortSignal): Promise<DataConnection> {
    const connection = new DataConnection(options)
    const abort = () => connection.#socket.terminate()
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    try {
      const welcome = await connection.#introduce()
      void connection.#keepAlive()
      if ((welcome.probeBytes ?? 0) >= probeBytes) void connection.#probe.run(connection.#ended.signal)
      return connection
    } catch (error) {
      connection.#socket.terminate()
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /**
   * @throws BrimError BUNDLE_MISMATCH, SESSION_REFUSED, LINK_LOST, CANCELED
   */
  open(modelId: string, signal: AbortSignal, wish: SessionOptions = {}): Promise<LinkSession> {
    return new Promise((resolve, reject) => {
      if (this.#ended.signal.aborted) return reject(this.#ended.signal.reason)
      if (signal.aborted) return reject(signal.reason)
      this.#probe.abandon()
      this.#tellRates()
      this.#requests += 1
      const request = this.#requests
      const done = new AbortController()
      const abandon = () => {
        answered()
        done.abort()
        opening.abandoned = true
        reject(signal.reason)
      }
      const settled =
        <T>(settle: (value: T) => void) =>
        (value: T) => {
          answered()
          signal.removeEventListener('abort', abandon)
          done.abort()
          settle(value)
        }
      const bytesUp = this.#say({ type: 'open', request, modelId, ...onWire(wish) })
      const answered = this.#silence.expect(bytesUp, openedBytes)
      const opening: Opening = {
        wire: wish.wire ?? 'fp16',
        bytesUp,
        resolve: settled(resolve),
        reject: settled(reject),
        abandoned: false,
      }
      signal.addEventListener('abort', abandon, { once: true })
      this.#opening.set(request, opening)
      this.#expectAnswer(opening, done.signal)
    })
  }

  close(): void {
    this.#socket.close(1000)
    this.#options.clock.sleep(closeTimeoutMs, this.#ended.signal).then(
      () => this.#socket.terminate(),
      () => {},
    )
  }

  async #introduce(): Promise<Welcome> {
    const { url, device, birth, clock } = this.#options
    const welcomed = new Promise<Welcome | BrimError>((resolve) => {
      this.#onWelcome = resolve
    })
    this.#socket.once('open', () => this.#say({ type: 'hello', v: 1, device, birth }))
    const inTime = new AbortController()
    const late = clock.sleep(handshakeMs, inTime.signal).then(() => timedOut(url))
    late.catch(() => {})
    const answer = await Promise.race([welcomed, this.gone, late])
    inTime.abort()
    this.#onWelcome = undefined
    if (answer instanceof BrimError) throw answer.code === 'LINK_LOST' ? unreachable(url, answer) : answer
    return answer
  }

  async #keepAlive(): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#ended
    while (!signal.aborted) {
      if (!this.#heard) return this.#giveUp()
      this.#heard = false
      this.#ping()
      await clock.sleep(heartbeatMs, signal).catch(() => {})
    }
  }

  #ping(): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return
    this.#pingedMs ??= this.#options.clock.nowMs()
    this.#socket.ping()
  }

  /** It may be at work, but nobody will hear of it. */
  #giveUp(): void {
    this.#failure = new Error('the bridge has fallen silent')
    this.#socket.terminate()
  }

  get rates(): LinkRates {
    return this.#rates
  }

  /** False while it stands but leaves those who ask for a session without an answer. */
  get answers(): boolean {
    return this.#unanswered === 0
  }

  #hear(): void {
    this.#heard = true
    this.#silence.hear()
    this.#unanswered = 0
  }

  #onPong(): void {
    this.#hear()
    if (this.#pingedMs !== undefined) this.#rates.pinged((this.#options.clock.nowMs() - this.#pingedMs) / 1_000)
    this.#pingedMs = undefined
  }

  /** Once they are known, and whenever one has moved: the bridge sizes its chunks by them. */
  #tellRates(): void {
    const { upBytesPerS } = this.#rates
    const { prefillTokensPerS } = this.#options.speed
    if (upBytesPerS === undefined || prefillTokensPerS === undefined) return
    const told = this.#told
    if (told && !hasMoved(told.upBytesPerS, upBytesPerS) && !hasMoved(told.prefillTokensPerS, prefillTokensPerS)) return
    this.#told = { upBytesPerS, prefillTokensPerS }
    this.#say({ type: 'rates', ...this.#told })
  }

  #receive(data: RawData, isBinary: boolean): void {
    this.#hear()
    if (!(data instanceof Buffer)) throw new Error('binaryType is nodebuffer')
    if (isBinary && isProbe(data)) this.#receiveProbe(data)
    else if (isBinary) this.#receiveFrame(data)
    else this.#receiveMessage(data)
  }

  #receiveFrame(bytes: Buffer): void {
    const session = this.#sessions.get(peekFrame(bytes).session)
    // Of a session that we have closed: nobody waits for it.
    if (!session) return
    session.bytesDown += webSocketBytes(bytes.byteLength, false)
    try {
      session.receive(decodeFrame(bytes))
      if (session.ended) this.#sessions.delete(session.id)
    } catch (error) {
      if (!(error instanceof BrimError)) throw error
      this.#drop(session, error)
    }
  }

  #receiveProbe(bytes: Buffer): void {
    try {
      this.#probe.receive(bytes)
    } catch (err) {
      if (!(err instanceof BrimError)) throw err
      this.#options.logger.warn({ err }, 'unreadable probe of the bridge ignored')
    }
  }

  #receiveMessage(bytes: Buffer): void {
    const read = readMessage(ToDevice, bytes)
    if (read.kind === 'unreadable')
      return void this.#options.logger.warn({ reason: read.reason }, 'unreadable message of the bridge ignored')
    const { message } = read
    switch (message.type) {
      case 'welcome':
        this.#onWelcome?.(message)
        break
      case 'opened':
        this.#opened(message, bytes.byteLength)
        break
      case 'refused':
        this.#refused(message)
        break
      case 'kept':
        this.#keeping.get(message.session)?.(message.handle)
        this.#keeping.delete(message.session)
        break
      case 'advice':
        this.#advised(message)
        break
      default:
        message satisfies never
    }
  }

  /** Whoever asks is told in time to ask another bridge. */
  #expectAnswer(opening: Opening, answered: AbortSignal): void {
    const { clock, url } = this.#options
    clock.sleep(openTimeoutMs, AbortSignal.any([answered, this.#ended.signal])).then(
      () => {
        this.#unanswered += 1
        opening.abandoned = true
        const what = `the bridge at ${url} did not open a session within ${openTimeoutMs} ms`
        opening.reject(new BrimError('BRIDGE_UNREACHABLE', what, { hint: unreachableHint }))
      },
      () => {},
    )
  }

  #refused({ request, code, message, retryAfterMs }: Refused): void {
    const error = remoteError(code, message, retryAfterMs)
    // 0 answers `hello`, or what the bridge could not read.
    if (request === 0 && !this.#onWelcome) this.#options.logger.warn({ err: error }, 'refused by the bridge')
    if (request === 0) this.#onWelcome?.(error)
    this.#opening.get(request)?.reject(error)
    this.#opening.delete(request)
  }

  #advised({ session, chunkTokens }: Advice): void {
    const advised = this.#sessions.get(sessionBits(session))
    if (advised) advised.chunkTokens = chunkTokens
  }

  #opened(message: Opened, bytes: number): void {
    const opening = this.#opening.get(message.request)
    this.#opening.delete(message.request)
    const end = (keep?: number) => this.#say({ type: 'close', session: message.session, ...(keep === undefined ? {} : { keep }) })
    // Whoever asked has left meanwhile: the bridge must not keep KV for nobody.
    if (!opening || opening.abandoned) return void end()
    const session = new OpenSession(message, {
      clock: this.#options.clock,
      rates: this.#rates,
      wire: opening.wire,
      bridge: this.#options.url,
      send: (frame, replyBytes) => {
        this.#tellRates()
        session.bytesUp += this.#send(frame)
        return this.#silence.expect(frame.byteLength, replyBytes)
      },
      onClose: (keep) => {
        this.#sessions.delete(session.id)
        session.bytesUp += end(keep)
        if (keep === undefined || this.#ended.signal.aborted) return Promise.resolve(undefined)
        return new Promise((resolve) => this.#keeping.set(message.session, resolve))
      },
    })
    session.bytesUp = opening.bytesUp
    session.bytesDown = webSocketBytes(bytes, false)
    this.#sessions.set(session.id, session)
    opening.resolve(session)
  }

  /** A session that cannot go on: whoever waits is told why, the bridge frees its KV. */
  #drop(session: OpenSession, reason: BrimError): void {
    this.#sessions.delete(session.id)
    session.end(reason)
    this.#say({ type: 'close', session: sessionHex(session.id) })
  }

  #end(reason: BrimError): void {
    this.#ended.abort(reason)
    for (const session of this.#sessions.values()) session.end(reason)
    this.#sessions.clear()
    for (const kept of this.#keeping.values()) kept(undefined)
    this.#keeping.clear()
    for (const opening of this.#opening.values()) opening.reject(reason)
    this.#opening.clear()
  }

  /** @returns bytes on the socket */
  #say(message: ToBridge): number {
    return this.#send(JSON.stringify(message))
  }

  #send(data: Uint8Array | string): number {
    // A socket that is closing rejects everything by its `close` event.
    if (this.#socket.readyState !== WebSocket.OPEN) return 0
    this.#socket.send(data)
    this.#sentMs = this.#options.clock.nowMs()
    return webSocketBytes(typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength, true)
  }
}

/** What concerns the bridge of a wish. */
function onWire({ resume, wire }: SessionOptions): Pick<Extract<ToBridge, { type: 'open' }>, 'resume' | 'wire'> {
  return { ...(resume ? { resume: { handle: resume.handle, length: resume.length } } : {}), ...(wire ? { wire } : {}) }
}

function lost(code: number, reason: string, cause: Error | undefined): BrimError {
  const why = reason === '' ? cause?.message : reason
  const detail = why === undefined ? `code ${code}` : `${why}, code ${code}`
  return new BrimError('LINK_LOST', `the connection to the bridge ended (${detail})`, {
    ...(cause ? { cause } : {}),
    hint: 'ask again; the agent reconnects by itself',
  })
}

export const unreachableHint = 'is the bridge running, and can this device reach it?'

function unreachable(url: string, cause: BrimError): BrimError {
  if (cause.cause instanceof Error && cause.cause.message.endsWith(' 401'))
    return new BrimError('NOT_AUTHORIZED', `the bridge's data plane ${url} does not let this device in`, {
      hint: 'brim agent enroll makes it known there',
    })
  return new BrimError('BRIDGE_UNREACHABLE', `the bridge's data plane ${url} cannot be reached`, {
    cause: cause.cause ?? cause,
    hint: unreachableHint,
  })
}

const timedOut = (url: string) =>
  new BrimError('BRIDGE_UNREACHABLE', `the bridge's data plane ${url} did not answer within ${handshakeMs} ms`, {
    hint: unreachableHint,
  })
