import { randomBytes } from 'node:crypto'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { RateReports } from '../../core/policy/hat/chunk-advice.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { decodeFrame, peekFrame } from '../../core/wire/protocol/frame.ts'
import { sessionBits, sessionHex, type ToBridge, ToDevice } from '../../core/wire/protocol/messages.ts'
import { isProbe } from '../../core/wire/protocol/probe.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import type { StateCoders } from '../../core/wire/protocol/row-coder.ts'
import type { RequiredAttestation } from '../attestation/required-attestation.ts'
import type { Disclosures } from '../disclosures/disclosures.ts'
import { DataSocket, type DataSocketOptions, webSocketBytes } from './data-socket.ts'
import { bridgeUnreachable, connectError, remoteError } from './link-errors.ts'
import { LinkProbe, probeBytes } from './link-probe.ts'
import { type LinkSession, type LinkSessionOptions, OpenSession, type SessionTerms } from './link-session.ts'
import { type SessionForm, SessionRequests } from './session-requests.ts'
import { SilenceWatch } from './silence-watch.ts'

/** Time for the bridge to welcome the device. */
const welcomeTimeoutMs = 10_000
/** Approximate size of an `opened` message. */
const openedBytes = 256

export interface DataConnectionOptions extends Pick<DataSocketOptions, 'url' | 'token' | 'socket' | 'clock'> {
  readonly device: string
  readonly birth: number
  /** Measured speed of this device; the bridge sizes its chunks by it. */
  readonly speed: DeviceSpeed
  /** Is told of all rows, before they are sent. */
  readonly disclosures: Disclosures
  /** Absent: any bridge gets rows. */
  readonly attestation?: RequiredAttestation | undefined
  readonly random: Random
  readonly logger: Logger
}

type Message<T extends ToDevice['type']> = Extract<ToDevice, { type: T }>
type Open = Extract<ToBridge, { type: 'open' }>

/** A session that is open for its answer ends with it. */
const never = new AbortController().signal

/** One WebSocket connection to a bridge, with many HAT sessions on it. */
export class DataConnection {
  /** Resolves, with the reason, when the connection has closed and its sessions have ended. */
  readonly closed: Promise<BrimError>
  /** Measured on this connection. */
  readonly rates = new LinkRates(() => this.#socket.ping())
  readonly #options: DataConnectionOptions
  readonly #socket: DataSocket
  readonly #requests: SessionRequests
  readonly #silence: SilenceWatch
  readonly #probe: LinkProbe
  readonly #rateReports = new RateReports()
  readonly #sessions = new Map<bigint, OpenSession>()
  /** By model: of the last session that the bridge has opened. */
  readonly #terms = new Map<string, SessionTerms>()
  /** The challenge of this connection; undefined: no evidence is required. */
  readonly #nonce: string | undefined
  #acceptsEarly = false
  /** Ids of the tables by which rows may be coded on this connection. */
  #codings: ReadonlySet<string> = new Set()
  /** By session: resolvers of the handles under which the bridge caches ended sessions. */
  readonly #handles = new Map<string, (handle: string | undefined) => void>()
  #onWelcome: ((reply: Message<'welcome'> | BrimError) => void) | undefined

  private constructor(options: DataConnectionOptions) {
    const { url, device, birth, clock } = options
    this.#options = options
    this.#nonce = options.attestation && randomBytes(32).toString('hex')
    this.#socket = new DataSocket({
      ...options,
      onOpen: () => this.#send({ type: 'hello', v: 1, device, birth, nonce: this.#nonce }),
      onSignOfLife: () => {
        this.#silence.onSignOfLife()
        this.#requests.onSignOfLife()
      },
      onMessage: (bytes, isBinary) => this.#receive(bytes, isBinary),
      onRoundTrip: (rttS) => this.rates.recordRoundTrip(rttS),
    })
    const { ended } = this.#socket
    this.closed = this.#socket.closed.then((reason) => {
      this.#end(reason)
      return reason
    })
    this.#requests = new SessionRequests({ url, clock, ended })
    this.#silence = new SilenceWatch({
      clock,
      rates: this.rates,
      ask: () => this.#socket.ping(),
      giveUp: () => this.#socket.giveUp(),
      ended,
    })
    this.#probe = new LinkProbe({
      ...options,
      rates: this.rates,
      state: () => ({ sessions: this.#sessions.size + this.#requests.count, sentMs: this.#socket.sentMs }),
      send: (frame) => this.#socket.send(frame),
    })
  }

  /**
   * Connects, introduces the device, and checks the bridge's evidence where it is required: no session can be opened before.
   * @throws BrimError BRIDGE_UNREACHABLE, NOT_AUTHORIZED, ATTESTATION_REFUSED, or the code with which the bridge rejected it
   */
  static async connect(options: DataConnectionOptions, signal: AbortSignal): Promise<DataConnection> {
    const connection = new DataConnection(options)
    const socket = connection.#socket
    const abort = () => socket.terminate()
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    try {
      const welcome = await connection.#awaitWelcome()
      connection.#requireEvidence(welcome)
      connection.#acceptsEarly = welcome.early ?? false
      connection.#codings = new Set(welcome.codings)
      void socket.keepAlive()
      if ((welcome.probeBytes ?? 0) >= probeBytes) void connection.#probe.run(socket.ended)
      return connection
    } catch (error) {
      socket.terminate()
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /** False after a session request has timed out, until the next sign of life from the bridge. */
  get isResponsive(): boolean {
    return this.#requests.isResponsive
  }

  /** @throws BrimError BRIDGE_UNREACHABLE, BUNDLE_MISMATCH, SESSION_REFUSED, LINK_LOST, CANCELED */
  async open(modelId: string, signal: AbortSignal, sessionOptions: LinkSessionOptions = {}): Promise<LinkSession> {
    const { resume, wire = 'fp16', early = false, answer, traceparent } = sessionOptions
    const coders = this.#mayCode(sessionOptions.coders) ? sessionOptions.coders : undefined
    this.#socket.ended.throwIfAborted()
    signal.throwIfAborted()
    this.#probe.abandon()
    this.#sendRates()
    const resumed = resume && { resume: { handle: resume.handle, length: resume.length } }
    const options = { modelId, ...resumed, wire: coders ? ('fp16c' as const) : wire, traceparent }
    const form = { wire, coders, answer }
    const terms = early && this.#acceptsEarly ? this.#terms.get(modelId) : undefined
    if (terms) return this.#openEarly(options, form, terms)
    return this.#requests.add((request) => {
      const bytesUp = this.#send({ type: 'open', request, ...options })
      return { modelId, ...form, bytesUp, settled: this.#silence.expect(bytesUp, openedBytes) }
    }, signal)
  }

  /** Without a wait for the bridge, on the terms of the last session. */
  #openEarly(
    options: Pick<Open, 'modelId' | 'resume' | 'wire' | 'traceparent'>,
    form: SessionForm,
    terms: SessionTerms,
  ): LinkSession {
    const { modelId, resume } = options
    const id = randomBytes(8).toString('hex')
    const early = this.#createSession({ ...terms, session: id, epoch: 0, held: resume?.length ?? 0, moved: false }, form)
    this.#sessions.set(early.id, early)
    const opened = this.#requests.add((request) => {
      early.bytesUp = this.#send({ type: 'open', request, ...options, session: id })
      return { modelId, ...form, early, bytesUp: early.bytesUp, settled: this.#silence.expect(early.bytesUp, openedBytes) }
    }, never)
    opened.catch((error: unknown) => {
      const reason =
        error instanceof BrimError ? error : new BrimError('LINK_LOST', 'the session was not opened', { cause: error })
      this.#refuse(early, reason)
    })
    return early
  }

  #refuse(early: OpenSession, reason: BrimError): void {
    this.#sessions.delete(early.id)
    early.refuse(reason)
  }

  close(): void {
    this.#socket.close()
  }

  async #awaitWelcome(): Promise<Message<'welcome'>> {
    const { url, clock } = this.#options
    const welcomed = new Promise<Message<'welcome'> | BrimError>((resolve) => {
      this.#onWelcome = resolve
    })
    const done = new AbortController()
    const timeout = clock
      .sleep(welcomeTimeoutMs, done.signal)
      .then(() => bridgeUnreachable(`the bridge's data plane ${url} did not respond within ${welcomeTimeoutMs} ms`))
    timeout.catch(() => {})
    const reply = await Promise.race([welcomed, this.closed, timeout])
    done.abort()
    this.#onWelcome = undefined
    if (reply instanceof BrimError) throw reply.code === 'LINK_LOST' ? connectError(url, reply) : reply
    return reply
  }

  /** @throws BrimError ATTESTATION_REFUSED */
  #requireEvidence({ evidence }: Message<'welcome'>): void {
    const { attestation, url, logger } = this.#options
    if (!attestation || this.#nonce === undefined) return
    const claims = attestation.check({ url, nonce: this.#nonce, publicKey: this.#socket.peerKey, evidence })
    logger.info({ url, ...claims }, 'evidence of the bridge accepted')
  }

  /** Sends the rates once they are known, and again whenever one of them has moved. */
  #sendRates(): void {
    const rates = this.#rateReports.due(this.rates.upBytesPerS, this.#options.speed.prefillTokensPerS)
    if (rates) this.#send({ type: 'rates', ...rates })
  }

  #receive(bytes: Buffer, isBinary: boolean): void {
    if (isBinary && isProbe(bytes)) this.#receiveProbe(bytes)
    else if (isBinary) this.#receiveFrame(bytes)
    else this.#receiveMessage(bytes)
  }

  #receiveFrame(bytes: Buffer): void {
    const session = this.#sessions.get(peekFrame(bytes).session)
    // The device has closed that session.
    if (!session) return
    session.bytesDown += webSocketBytes(bytes.byteLength, false)
    try {
      session.receive(decodeFrame(bytes))
      if (session.ended) this.#sessions.delete(session.id)
    } catch (error) {
      if (!(error instanceof BrimError)) throw error
      this.#sessions.delete(session.id)
      session.end(error)
      this.#send({ type: 'close', session: sessionHex(session.id) })
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
        this.#onOpened(message, bytes.byteLength)
        break
      case 'refused':
        this.#onRefused(message)
        break
      case 'kept':
        this.#handles.get(message.session)?.(message.handle)
        this.#handles.delete(message.session)
        break
      case 'advice':
        this.#onAdvice(message)
        break
      default:
        message satisfies never
    }
  }

  #onRefused({ request, code, message, retryAfterMs }: Message<'refused'>): void {
    const error = remoteError(code, message, retryAfterMs)
    // Request 0 stands for `hello`, or for a message that the bridge could not read.
    if (request > 0) {
      const refused = this.#requests.take(request)
      // At once: the next message may be a fault of the rows that came too late to be dropped with the session.
      if (refused?.early) this.#refuse(refused.early, error)
      refused?.reject(error)
    } else if (this.#onWelcome) this.#onWelcome(error)
    else this.#options.logger.warn({ err: error }, 'message rejected by the bridge')
  }

  #onAdvice({ session, chunkTokens }: Message<'advice'>): void {
    const advised = this.#sessions.get(sessionBits(session))
    if (advised) advised.chunkTokens = chunkTokens
  }

  #onOpened(message: Message<'opened'>, bytesDown: number): void {
    const request = this.#requests.take(message.request)
    // The device has given the request up: the bridge must not hold KV for it.
    if (!request) return void this.#send({ type: 'close', session: message.session })
    const { modelId, early, bytesUp } = request
    this.#terms.set(modelId, message)
    early?.confirm(message)
    const session = early ?? this.#createSession(message, request)
    session.bytesDown += webSocketBytes(bytesDown, false)
    if (!early) {
      session.bytesUp = bytesUp
      this.#sessions.set(session.id, session)
    }
    request.resolve(session)
  }

  #mayCode(coders: StateCoders | undefined): boolean {
    return coders !== undefined && this.#codings.has(coders.id)
  }

  #createSession(message: SessionTerms, { wire, coders, answer }: SessionForm): OpenSession {
    const leaving = this.#options.disclosures.states(this.#options.url, answer)
    const session: OpenSession = new OpenSession(message, {
      bridge: this.#options.url,
      clock: this.#options.clock,
      rates: this.rates,
      wire,
      coders,
      isCoding: () => this.#mayCode(coders),
      onUnfit: () => {
        if (this.#codings.size > 0)
          this.#options.logger.info('rows do not fit their coded length: this connection sends fp16 from now on')
        this.#codings = new Set()
      },
      send: (frame, rows, replyBytes) => {
        this.#sendRates()
        leaving.rows(rows, frame.byteLength)
        session.bytesUp += this.#socket.send(frame)
        return this.#silence.expect(frame.byteLength, replyBytes)
      },
      report: (tokensPerS, undelivered) => {
        session.bytesUp += this.#send({ type: 'reading', session: message.session, tokensPerS, undelivered })
      },
      onClose: (keep) => {
        this.#sessions.delete(session.id)
        session.bytesUp += this.#send({ type: 'close', session: message.session, ...(keep === undefined ? {} : { keep }) })
        if (keep === undefined || this.#socket.ended.aborted) return Promise.resolve(undefined)
        return new Promise((resolve) => this.#handles.set(message.session, resolve))
      },
      onEnded: () => leaving.ended(),
    })
    return session
  }

  #end(reason: BrimError): void {
    for (const session of this.#sessions.values()) session.end(reason)
    this.#sessions.clear()
    for (const resolve of this.#handles.values()) resolve(undefined)
    this.#handles.clear()
    this.#requests.rejectAll(reason)
  }

  /** @returns bytes on the wire */
  #send(message: ToBridge): number {
    return this.#socket.send(JSON.stringify(message))
  }
}
