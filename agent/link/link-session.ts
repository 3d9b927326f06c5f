import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { decodeFault } from '../../core/wire/protocol/fault.ts'
import {
  decodeStates,
  encodeFrame,
  type Frame,
  type FrameForm,
  headerBytes,
  isCoded,
  rowsBytes,
  type UncodedWire,
  type Wire,
} from '../../core/wire/protocol/frame.ts'
import { sessionBits, type ToDevice } from '../../core/wire/protocol/messages.ts'
import type { StateCoders } from '../../core/wire/protocol/row-coder.ts'
import type { States } from '../../core/wire/protocol/states.ts'
import { remoteError } from './link-errors.ts'

/** The bridge's reply to rows: the requested deep rows, or the number of rows it holds if ours left a gap after them. */
export type Reply = { kind: 'deep'; states: States; queueMs: number; computeMs: number } | { kind: 'gap'; length: number }

/** The beginning of a prompt that a bridge may have cached. */
export interface PrefixHandle {
  readonly handle: string
  readonly length: number
  /** URL of the data plane of the bridge that issued the handle. Bridge ids are not unique across brokers. */
  readonly bridge: string
}

export interface LinkSessionOptions {
  /** The model of the session; absent: the one that the device answers with. */
  readonly modelId?: string | undefined
  readonly resume?: PrefixHandle | undefined
  /** Encoding of states on the way up, where they are not coded; default fp16. */
  readonly wire?: UncodedWire | undefined
  /** Code the rows both ways, at a bridge with the same tables. Absent: they are not coded. */
  readonly coders?: StateCoders | undefined
  /** URL of the data plane of a bridge to try last: it has just failed a session of this answer. */
  readonly avoid?: string | undefined
  /**
   * Rows may be sent before the bridge has opened the session, where it and the terms of its sessions are known: `held`, `moved` and
   * `chunkTokens` are what the device expects until then, and a refusal is the failure of the first exchange.
   */
  readonly early?: boolean | undefined
  /** Number of the answer in the ledger of disclosures; absent: a job's. */
  readonly answer?: number | undefined
  /** W3C Trace Context: of the span that asks. */
  readonly traceparent?: string | undefined
}

/** Form of the frames of one exchange; the session fixes the wire encoding. */
export type RowsForm = Pick<FrameForm, 'paddedRows' | 'tree'>

/** A HAT session at the bridge: the KV of the middle part, extended by rows. */
export interface LinkSession {
  /** URL of the bridge's data plane. */
  readonly bridge: string
  /** Why the bridge has not opened it, after rows may have been sent. */
  readonly refusal?: BrimError | undefined
  /** Positions that the bridge held when the session was opened. */
  readonly held: number
  /** The session has taken over the resumed prefix: its handle becomes void when the session ends. */
  readonly moved: boolean
  /** X: prompt tokens per frame; the bridge may revise it at any time. */
  readonly chunkTokens: number
  /** Maximum rows per frame. */
  readonly frameTokens: number
  /** Maximum tokens drafted per round. */
  readonly draftLimit: number
  /** Bytes of this session on the wire so far, WebSocket headers included. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** Encoding of states on the way up. */
  readonly wire: Wire
  /** Of the session's connection. */
  readonly rates: LinkRates
  /**
   * Tells the bridge how the answer's reader stands, if the bridge wants to know: it serves first whose reader waits.
   * @param undelivered tokens that the reader has not read
   */
  report(tokensPerS: number, undelivered: number): void
  /**
   * Sends rows for positions base, base + 1, … and receives the deep states of the last `want`. Exchanges may overlap in
   * time. With `paddedRows`, frame and reply are as long as if they had that many rows; `tree` describes how rows branch.
   * @throws BrimError LINK_LOST, CANCELED (closed), FRAME_INVALID, or the code of the bridge's fault
   */
  exchange(base: number, rows: States, want: number, form?: RowsForm): Promise<Reply>
  /** Frees the KV at the bridge; pending exchanges reject with CANCELED. */
  close(): void
  /**
   * Closes the session and asks the bridge to cache its first `length` positions.
   * @returns the handle for resuming them; undefined if the bridge does not cache them or the connection was lost
   */
  closeAndCache(length: number): Promise<string | undefined>
}

/** The connection, as a session uses it. */
export interface SessionTransport {
  readonly bridge: string
  readonly clock: Clock
  readonly rates: LinkRates
  readonly wire: UncodedWire
  readonly coders: StateCoders | undefined
  /** Whether rows are coded now. */
  isCoding(): boolean
  /** Called when rows did not fit their length, which shows: from now on, no rows of this connection are coded. */
  onUnfit(): void
  /**
   * @param rows in the frame
   * @param replyBytes expected size of the reply
   * @returns to be called when the reply has arrived, or is no longer needed
   */
  send(frame: Uint8Array, rows: number, replyBytes: number): () => void
  /** Only to a bridge that accepts it. */
  report(tokensPerS: number, undelivered: number): void
  /** Called once, if the device closes the session. @param keep positions to cache @returns their handle */
  onClose(keep?: number): Promise<string | undefined>
  /** Called once, when no rows follow. */
  onEnded(): void
}

interface PendingReply {
  readonly width: number
  readonly bytesUp: number
  readonly isVerification: boolean
  readonly isCoded: boolean
  readonly sentMs: number
  readonly settled: () => void
  resolve(reply: Reply): void
  reject(error: unknown): void
}

export type SessionTerms = Extract<ToDevice, { type: 'opened' }>

/** The device's end of a session: numbers its frames and matches the replies to them. */
export class OpenSession implements LinkSession {
  readonly id: bigint
  readonly bridge: string
  readonly rates: LinkRates
  refusal: BrimError | undefined
  held: number
  moved: boolean
  readonly frameTokens: number
  readonly draftLimit: number
  chunkTokens: number
  bytesUp = 0
  bytesDown = 0
  readonly #epoch: number
  readonly #acceptsReading: boolean
  readonly #transport: SessionTransport
  readonly #pending = new Map<number, PendingReply>()
  #seq = 0
  #ended: BrimError | undefined

  constructor(terms: SessionTerms, transport: SessionTransport) {
    this.id = sessionBits(terms.session)
    this.#epoch = terms.epoch
    this.#acceptsReading = terms.reading ?? false
    this.chunkTokens = terms.chunkTokens
    this.held = terms.held
    this.moved = terms.moved
    this.frameTokens = terms.frameTokens
    this.draftLimit = terms.draftLimit
    this.#transport = transport
    this.bridge = transport.bridge
    this.rates = transport.rates
  }

  /** The bridge has opened it. */
  confirm({ held, moved, chunkTokens }: SessionTerms): void {
    this.held = held
    this.moved = moved
    this.chunkTokens = chunkTokens
  }

  /** The bridge has not opened it. */
  refuse(reason: BrimError): void {
    if (this.#ended) return
    this.refusal = reason
    this.end(reason)
  }

  get wire(): Wire {
    return this.#transport.isCoding() ? 'fp16c' : this.#transport.wire
  }

  get ended(): boolean {
    return this.#ended !== undefined
  }

  exchange(base: number, rows: States, want: number, form: RowsForm = {}): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended)
      this.#seq += 1
      const header = { type: 'rows', session: this.id, epoch: this.#epoch, seq: this.#seq, base, want } as const
      const { width } = rows
      const { wire, coders, clock } = this.#transport
      const coder = this.#transport.isCoding() ? coders?.up : undefined
      const frame = encodeFrame(header, rows, { ...form, wire, coder })
      const isSentCoded = isCoded(frame)
      if (coder && !isSentCoded) this.#transport.onUnfit()
      const sentMs = clock.nowMs()
      const returned = Math.max(want, form.paddedRows ?? 0)
      const replyBytes = headerBytes + rowsBytes(isSentCoded ? 'fp16c' : 'fp16', returned, width, coders?.down)
      const settled = this.#transport.send(frame, rows.rows, replyBytes)
      const isVerification = want === rows.rows
      const sent = { width, bytesUp: frame.byteLength, isVerification, isCoded: isSentCoded, sentMs }
      this.#pending.set(this.#seq, { ...sent, settled, resolve, reject })
    })
  }

  report(tokensPerS: number, undelivered: number): void {
    if (this.#acceptsReading && !this.#ended) this.#transport.report(tokensPerS, undelivered)
  }

  close(): void {
    void this.#close()
  }

  closeAndCache(length: number): Promise<string | undefined> {
    return this.#close(length)
  }

  async #close(keep?: number): Promise<string | undefined> {
    if (this.#ended) return undefined
    this.end(new BrimError('CANCELED', 'the session was closed'))
    return this.#transport.onClose(keep)
  }

  /** Handles a frame of this session. Frames of an earlier epoch, and replies without a pending exchange, are dropped. */
  receive(frame: Frame): void {
    if (frame.epoch !== this.#epoch) return
    if (frame.type === 'fault') this.end(faultError(frame))
    else this.#onReply(frame)
  }

  /** Ends the session: pending and later exchanges reject with `reason`. */
  end(reason: BrimError): void {
    if (this.#ended) return
    this.#ended = reason
    this.#transport.onEnded()
    for (const { settled, reject } of this.#pending.values()) {
      settled()
      reject(reason)
    }
    this.#pending.clear()
  }

  #measure(frame: Frame, { bytesUp, isVerification, sentMs }: PendingReply): void {
    const answeredS = this.#transport.clock.nowMs() / 1_000
    const bytesDown = headerBytes + frame.payload.byteLength
    const sentS = sentMs / 1_000
    this.rates.recordExchange({ bytesUp, bytesDown, sentS, answeredS, cloudS: cloudSeconds(frame), isVerification })
  }

  #onReply(frame: Frame): void {
    const pending = this.#pending.get(frame.seq)
    if (!pending) return
    this.#pending.delete(frame.seq)
    pending.settled()
    if (frame.type === 'deep') this.#measure(frame, pending)
    if (frame.type === 'deep' && pending.isCoded && !isCoded(frame)) this.#transport.onUnfit()
    try {
      pending.resolve(readReply(frame, pending.width, this.#transport.coders))
    } catch (error) {
      pending.reject(error)
    }
  }
}

/** Time that the bridge held the frame, by its own report. The clocks of the two sides are never compared. */
function cloudSeconds({ queueMs, computeMs }: Frame): number {
  const seconds = (queueMs + computeMs) / 1_000
  return Number.isFinite(seconds) && seconds > 0 ? seconds : 0
}

function readReply(frame: Frame, width: number, coders: StateCoders | undefined): Reply {
  switch (frame.type) {
    case 'deep':
      return {
        kind: 'deep',
        states: decodeStates(frame, width, undefined, coders?.down),
        queueMs: frame.queueMs,
        computeMs: frame.computeMs,
      }
    case 'gap':
      return { kind: 'gap', length: frame.base }
    default:
      throw new BrimError('FRAME_INVALID', `the bridge answered rows with a frame of type ${frame.type}`)
  }
}

function faultError(frame: Frame): BrimError {
  try {
    const { code, message } = decodeFault(frame)
    return remoteError(code, message)
  } catch (error) {
    return error instanceof BrimError ? error : new BrimError('FRAME_INVALID', 'unreadable fault of the bridge', { cause: error })
  }
}
