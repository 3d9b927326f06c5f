import { randomBytes } from 'node:crypto'
import type { AnswerSize } from '../../core/answer/metrics/answer-metrics.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { passingTracer, type Span, type Tracer } from '../../core/kit/trace/tracer.ts'
import { sessionRefusal, sessionRetryMs } from '../../core/policy/admission/session.ts'
import { ChunkAdvice, type ChunkAdviceOptions, type DeviceRates } from '../../core/policy/hat/chunk-advice.ts'
import { encodeFault, type Fault } from '../../core/wire/protocol/fault.ts'
import { decodeFrame, type Frame, peekFrame, rowBytes, type Wire } from '../../core/wire/protocol/frame.ts'
import type { HatSession } from '../../core/wire/protocol/http/served-now.ts'
import { noModelId, sessionHex } from '../../core/wire/protocol/messages.ts'
import type { StateCoders } from '../../core/wire/protocol/row-coder.ts'
import type { OpenedStream, Resume, Serving } from '../serving/serving.ts'
import type { Stream } from '../serving/stream.ts'
import { sessionView } from './served-now.ts'
import { createSession, type Session, type SessionOptions } from './session.ts'

/** What sessions need of a device's connection. */
export interface Peer {
  readonly device: string
  /** The rates that the device reported last; undefined before its first report. */
  readonly rates: DeviceRates | undefined
  /** Of the link; undefined before the first measurement. */
  readonly rttMs: number | undefined
  /** Never throws; drops what can no longer be sent. */
  send(bytes: Uint8Array): void
  /** Sends the device a new chunk size, in tokens of a prompt per frame. */
  advise(session: bigint, chunkTokens: number): void
}

/** A model that devices open sessions with. */
export interface SessionModel {
  readonly serving: Serving
  /** Why this bridge opens no sessions with it. */
  readonly refusal?: string | undefined
  readonly width: number
  /** Undefined: its bundle has no tables. */
  readonly coders?: StateCoders | undefined
  readonly chunks: Omit<ChunkAdviceOptions, 'bytesPerToken'>
  readonly contextLimit: number
}

export interface SessionsOptions {
  /** By model id. */
  readonly models: ReadonlyMap<string, SessionModel>
  /** Of each session, whatever its model. */
  readonly limits: Omit<SessionOptions['limits'], 'contextLimit'> & {
    readonly sessionsPerDevice: number
    readonly idleMs: number
  }
  readonly clock: Clock
  readonly logger: Logger
  /** Absent: no session is traced. */
  readonly tracer?: Tracer | undefined
  /** The number of sessions has changed. */
  readonly onCount?: () => void
  /** A session has ended whose device got states of its whole prompt. */
  readonly onAnswered?: ((size: AnswerSize) => void) | undefined
}

export interface OpenOptions {
  readonly resume?: Resume | undefined
  /** Default: fp16. */
  readonly wire?: Wire | undefined
  /** Of the span that asks. */
  readonly traceparent?: string | undefined
  /** Chosen by the device, whose frames may come before the session is open. Default: chosen here. */
  readonly id?: bigint
}

export type OpenResult =
  | { kind: 'opened'; session: bigint; epoch: number; held: number; moved: boolean; chunkTokens: number; frameTokens: number }
  | { kind: 'refused'; code: 'SESSION_REFUSED'; message: string; retryAfterMs: number }
  | { kind: 'refused'; code: 'BUNDLE_MISMATCH'; message: string }

export interface Sessions {
  readonly count: number
  /** Of one device, those that are being opened included. */
  countOf(device: string): number
  /** Those that are open, in the order in which they began. */
  list(): HatSession[]
  /** Ids of the tables that rows may be coded by. */
  readonly codings: readonly string[]
  /** @param modelId that the device asks for */
  open(peer: Peer, modelId: string, options?: OpenOptions): Promise<OpenResult>
  /** Handles a binary message; resolves when it has been answered or dropped. Never rejects. */
  receive(peer: Peer, bytes: Uint8Array): Promise<void>
  /** What the device reports about the reader of a session's answer. */
  report(peer: Peer, session: bigint, tokensPerS: number, undelivered: number): void
  /** @param keep positions to cache for a later session; @returns the handle of what was cached */
  close(peer: Peer, session: bigint, keep?: number): Promise<string | undefined>
  /** The connection has closed: ends its sessions. */
  closePeer(peer: Peer): Promise<void>
  /** Opens no further session. @returns resolves when none is open */
  drain(): Promise<void>
  /** Sends every device a fault and ends every session. */
  shutdown(fault: Fault): Promise<void>
}

interface Entry {
  readonly session: Session
  readonly model: SessionModel
  readonly stream: Stream
  readonly peer: Peer
  readonly chunks: ChunkAdvice
  readonly log: Logger
  readonly span: Span
  readonly startedMs: number
  readonly bytes: { up: number; down: number }
  usedMs: number
  /** Up to the first states that the device asked for. */
  promptTokens?: number
  /** Why it ended. */
  fault?: Fault
}

export function createSessions(options: SessionsOptions): Sessions {
  const { models, limits, clock, logger, tracer = passingTracer } = options
  const modelIds = new Map([...models].map(([modelId, model]) => [model, modelId]))
  const entries = new Map<bigint, Entry>()
  /** Sessions whose ids devices have chosen, until they are open or refused. */
  const opening = new Map<bigint, { readonly peer: Peer; readonly done: Promise<OpenResult> }>()
  /** Sessions of each device, including those being opened. */
  const counts = new Map<string, number>()
  /** Sessions that have left `entries`, while their last step runs. */
  const ending = new Set<Promise<unknown>>()
  const closedPeers = new WeakSet<Peer>()
  const stop = new AbortController()
  let isDraining = false
  let onEmpty = () => {}
  let epochs = 0
  let expiring: Promise<void> | undefined

  function changeCount({ device }: Peer, by: 1 | -1): void {
    const count = (counts.get(device) ?? 0) + by
    if (count > 0) counts.set(device, count)
    else counts.delete(device)
  }

  /** Removes the entry before its session has ended; `shutdown` waits for the end. */
  async function remove<T>(entry: Entry, end: () => Promise<T>): Promise<T> {
    const { session, peer, stream, log, span, startedMs, promptTokens, fault } = entry
    if (entries.delete(session.id)) {
      if (promptTokens !== undefined)
        // The last token of an answer has no position.
        options.onAnswered?.({ atMs: startedMs, promptTokens, outputTokens: Math.max(0, stream.line - promptTokens) + 1 })
      changeCount(peer, -1)
      options.onCount?.()
      log.info({ positions: stream.line, tookMs: Math.round(clock.nowMs() - startedMs) }, 'session ended')
      span.end({ 'brim.positions': stream.line }, fault)
      if (entries.size === 0) onEmpty()
    }
    const ended = end()
    ending.add(ended)
    try {
      return await ended
    } finally {
      ending.delete(ended)
    }
  }

  const end = (entry: Entry) => remove(entry, () => entry.session.end())

  /** Of a session that this device is having opened: its end, once that is done. Undefined: there is none. */
  async function opened(peer: Peer, session: bigint): Promise<OpenResult['kind'] | undefined> {
    const pending = opening.get(session)
    return pending?.peer === peer ? (await pending.done.catch(() => undefined))?.kind : undefined
  }

  function find(peer: Peer, frame: Pick<Frame, 'session' | 'epoch'>): Entry | undefined {
    const entry = entries.get(frame.session)
    return entry && entry.peer === peer && entry.session.epoch === frame.epoch ? entry : undefined
  }

  function refuse(message: string): OpenResult {
    return { kind: 'refused', code: 'SESSION_REFUSED', message, retryAfterMs: sessionRetryMs }
  }

  /** While there are sessions, ends those that have been idle for `idleMs`; looks four times in that time. */
  async function expireSessions(): Promise<void> {
    while (entries.size > 0 && !stop.signal.aborted) {
      await clock.sleep(limits.idleMs / 4, stop.signal).catch(() => {})
      const idleSinceMs = clock.nowMs() - limits.idleMs
      for (const { session, usedMs } of [...entries.values()]) {
        if (stop.signal.aborted || session.pending > 0 || usedMs > idleSinceMs) continue
        void session.fail({ code: 'SESSION_UNKNOWN', message: `idle for ${limits.idleMs / 1_000} s` }, 0)
      }
    }
    expiring = undefined
  }

  async function admit(peer: Peer, modelId: string, openOptions: OpenOptions): Promise<OpenResult> {
    const model = models.get(modelId)
    if (!model) return { kind: 'refused', code: 'BUNDLE_MISMATCH', message: mismatch(modelId, [...models.keys()]) }
    const { sessionsPerDevice: maxSessions } = limits
    const load = { openSessions: counts.get(peer.device) ?? 0, maxSessions, isClosing: isDraining || stop.signal.aborted }
    const refusal = sessionRefusal(load)
    if (refusal !== undefined) return refuse(refusal)
    // Counts while it is being opened, so that many requests at once cannot exceed the limit.
    changeCount(peer, 1)
    try {
      return await open(peer, model, openOptions)
    } finally {
      changeCount(peer, -1)
    }
  }

  async function open(peer: Peer, model: SessionModel, { resume, ...sent }: OpenOptions): Promise<OpenResult> {
    const { serving, refusal } = model
    if (refusal !== undefined) return refuse(refusal)
    const place = await serving.open(peer.device, resume)
    if (!place) return refuse(`${serving.shortageOf(peer.device)}; ${entries.size} sessions are open`)
    if (stop.signal.aborted || closedPeers.has(peer)) {
      await place.stream.close()
      return refuse('the connection has closed')
    }
    return start(peer, model, place, sent)
  }

  function start(peer: Peer, model: SessionModel, { stream, moved }: OpenedStream, sent: OpenOptions): OpenResult {
    const { wire = 'fp16', id: chosen, traceparent } = sent
    const { width, contextLimit, coders } = model
    const held = stream.length
    const id = chosen ?? randomBytes(8).readBigUInt64LE()
    const epoch = chosen === undefined ? ++epochs : 0
    const names = { 'brim.session': sessionHex(id), 'brim.device': peer.device, 'brim.reused_positions': held }
    const span = tracer.begin('hat session', traceparent, names)
    const { traceId } = span
    const log = logger.child({ session: sessionHex(id), device: peer.device, ...(traceId && { trace: traceId }) })
    const session = createSession({
      id,
      epoch,
      width,
      coders,
      limits: { ...limits, contextLimit },
      stream,
      clock,
      send(bytes) {
        entry.bytes.down += bytes.byteLength
        peer.send(bytes)
      },
      onFault(fault, err) {
        log.warn({ fault, err }, 'session ended by a fault')
        entry.fault = fault
        void end(entry)
      },
    })
    const chunks = new ChunkAdvice({ ...model.chunks, bytesPerToken: rowBytes(wire, width, coders?.up) })
    chunks.revise(peer.rates)
    const startedMs = clock.nowMs()
    const bytes = { up: 0, down: 0 }
    const entry: Entry = { session, model, stream, peer, chunks, log, span, startedMs, bytes, usedMs: startedMs }
    entries.set(id, entry)
    changeCount(peer, 1)
    expiring ??= expireSessions()
    options.onCount?.()
    log.debug({ held }, 'session opened')
    const { tokens: chunkTokens } = chunks
    return { kind: 'opened', session: id, epoch: session.epoch, held, moved, chunkTokens, frameTokens: limits.maxRows }
  }

  /** A frame that cannot be read ends the session that it names. */
  async function failFrame(peer: Peer, bytes: Uint8Array, { code, message }: BrimError): Promise<void> {
    const about = peekFrame(bytes)
    const entry = find(peer, about)
    if (entry) await entry.session.fail({ code, message }, about.seq)
    else peer.send(encodeFault(about, { code, message }))
  }

  return {
    get count() {
      return entries.size
    },
    countOf: (device) => counts.get(device) ?? 0,
    list: () => [...entries.values()].flatMap((entry) => sessionView(entry, modelIds.get(entry.model)!) ?? []),
    codings: [...models.values()].flatMap(({ coders }) => (coders ? [coders.id] : [])),
    async open(peer, modelId, openOptions = {}) {
      const { id } = openOptions
      if (id === undefined) return admit(peer, modelId, openOptions)
      if (entries.has(id) || opening.has(id)) return refuse(`session ${sessionHex(id)} is open already`)
      const done = admit(peer, modelId, openOptions)
      // Its frames may arrive with this request, also where it is refused.
      opening.set(id, { peer, done })
      try {
        return await done
      } finally {
        opening.delete(id)
      }
    },
    async receive(peer, bytes) {
      const receivedMs = clock.nowMs()
      let frame: Frame
      try {
        frame = decodeFrame(bytes)
      } catch (error) {
        if (!(error instanceof BrimError)) throw error
        return failFrame(peer, bytes, error)
      }
      // A refusal is the reply to its `open`.
      if (opening.has(frame.session) && (await opened(peer, frame.session)) === 'refused') return
      const entry = find(peer, frame)
      if (!entry) {
        const message = `session ${sessionHex(frame.session)} of epoch ${frame.epoch} is not open on this connection`
        return peer.send(encodeFault(frame, { code: 'SESSION_UNKNOWN', message }))
      }
      entry.bytes.up += bytes.byteLength
      entry.usedMs = clock.nowMs()
      if (frame.want > 0) entry.promptTokens ??= frame.base + frame.n
      await entry.session.receive(frame, receivedMs)
      entry.usedMs = clock.nowMs()
      const sent = { rows: frame.n, returned: frame.want }
      if (entries.has(frame.session) && entry.chunks.reviseAfter(sent, peer.rates))
        peer.advise(frame.session, entry.chunks.tokens)
    },
    report(peer, session, tokensPerS, undelivered) {
      const entry = entries.get(session)
      if (entry?.peer === peer) entry.stream.report(tokensPerS, undelivered)
    },
    async close(peer, session, keep) {
      if (opening.has(session)) await opened(peer, session)
      const entry = entries.get(session)
      if (entry?.peer !== peer) return undefined
      if (keep === undefined) {
        await end(entry)
        return undefined
      }
      const handle = await remove(entry, () => entry.session.keep(keep))
      if (handle === undefined || !closedPeers.has(peer)) return handle
      // The device cannot be sent the handle any more; if it was revoked, no handle may lead to its KV.
      entry.model.serving.drop(handle)
      return undefined
    },
    async closePeer(peer) {
      closedPeers.add(peer)
      await Promise.all([...entries.values()].filter((entry) => entry.peer === peer).map(end))
    },
    drain() {
      isDraining = true
      return new Promise((resolve) => {
        onEmpty = resolve
        if (entries.size === 0) resolve()
      })
    },
    async shutdown(fault) {
      stop.abort()
      await expiring
      await Promise.all([...entries.values()].map(({ session }) => session.fail(fault, 0)))
      await Promise.all(ending)
    },
  }
}

function mismatch(modelId: string, served: readonly string[]): string {
  const models = served.filter((id) => id !== noModelId)
  if (models.length === 0) return 'this bridge serves no bundle'
  return `the device runs model ${modelId}, this bridge ${models.join(' and ')}: build or copy one bundle for both`
}
