import type { Clock } from '../../core/base/clock.ts'
import { BrimError, type ErrorCode, errorCodes } from '../../core/base/errors.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { decodeFault } from '../../core/protocol/fault.ts'
import {
  decodeStates,
  encodeFrame,
  type Frame,
  type FrameForm,
  headerBytes,
  rowBytes,
  type Wire,
} from '../../core/protocol/frame.ts'
import { sessionBits } from '../../core/protocol/messages.ts'
import type { States } from '../../core/protocol/states.ts'

/** What the bridge answers to rows: the deep rows asked for, or how many rows it holds where ours left a hole. */
export type Reply = { kind: 'deep'; states: States; queueMs: number; computeMs: number } | { kind: 'gap'; length: number }

/** The beginning of a prompt that the bridge may still hold. */
export interface Resume {
  readonly handle: string
  readonly length: number
  /** Data plane of the bridge that gave the handle; ids of bridges need not differ. */
  readonly bridge: string
}

/** What a session is opened with. */
export interface SessionOptions {
  readonly resume?: Resume | undefined
  /** How states travel up; fp16 where nothing is said. */
  readonly wire?: Wire | undefined
  /** Data plane of a bridge that comes last, for it has just failed such a session. */
  readonly avoid?: string | undefined
}

/** How rows are sent, beside the wire that the session was opened with. */
export type RowsForm = Omit<FrameForm, 'wire'>

/** A session at the bridge: the KV of the middle part, extended by rows. */
export interface LinkSession {
  /** Data plane of the bridge. */
  readonly bridge: string
  /** Positions that the bridge held when it opened. */
  readonly held: number
  /** What was resumed is this session's now: its handle is worth nothing when the session ends. */
  readonly moved: boolean
  /** X: tokens of a prompt per frame; the bridge may revise it at any time. */
  readonly chunkTokens: number
  /** Most rows of one frame. */
  readonly frameTokens: number
  /** Most tokens drafted per round. */
  readonly draftLimit: number
  /** Bytes of this session on the socket so far, WebSocket headers included. */
  readonly bytesUp: number
  readonly bytesDown: number
  /** How states travel up. */
  readonly wire: Wire
  /** Of the connection that it is on. */
  readonly rates: LinkRates
  /**
   * Rows for positions base, base + 1, …; the deep states of the last `want` come back. Frames may overlap in time;
   * each has its own reply. With `paddedRows` frame and reply are as long as if they had so many; `tree` says how rows
   * branch.
   * @throws BrimError LINK_LOST, CANCELED (closed), FRAME_INVALID, or the code of the bridge's fault
   */
  exchange(base: number, rows: States, want: number, form?: RowsForm): Promise<Reply>
  /** Frees the KV at the bridge; what is under way rejects with CANCELED. */
  close(): void
  /**
   * Closes, and asks the bridge to hold on to the first `length` positions.
   * @returns the handle to resume them by; undefined where the bridge does not keep them, or the link broke
   */
  closeAndCache(length: number): Promise<string | undefined>
}

export interface SessionTerms {
  readonly session: string
  readonly epoch: number
  readonly chunkTokens: number
  readonly frameTokens: number
  readonly draftLimit: number
  readonly held: number
  readonly moved: boolean
}

/** What a session needs of its connection. */
export interface SessionTransport {
  readonly bridge: string
  readonly clock: Clock
  readonly rates: LinkRates
  readonly wire: Wire
  /**
   * @param replyBytes that its reply will have
   * @returns to be called when it has come, or nobody waits for it any more
   */
  send(bytes: Uint8Array, replyBytes: number): () => void
  /** Tells the bridge; called once, when this side closes first. @param keep positions to hold on to */
  onClose(keep?: number): Promise<string | undefined>
}

interface Waiting {
  readonly width: number
  readonly bytesUp: number
  readonly sentMs: number
  readonly settled: () => void
  resolve(reply: Reply): void
  reject(error: unknown): void
}

/** The device's end of a session: numbers frames and matches replies to them. Sockets are the connection's business. */
export class OpenSession implements LinkSession {
  readonly id: bigint
  readonly held: number
  readonly moved: boolean
  readonly frameTokens: number
  readonly draftLimit: number
  chunkTokens: number
  bytesUp = 0
  bytesDown = 0
  readonly #epoch: number
  readonly #carrier: SessionTransport
  readonly #waiting = new Map<number, Waiting>()
  #seq = 0
  #ended: BrimError | undefined

  constructor(terms: SessionTerms, carrier: SessionTransport) {
    this.id = sessionBits(terms.session)
    this.#epoch = terms.epoch
    this.chunkTokens = terms.chunkTokens
    this.held = terms.held
    this.moved = terms.moved
    this.frameTokens = terms.frameTokens
    this.draftLimit = terms.draftLimit
    this.#carrier = carrier
  }

  get bridge(): string {
    return this.#carrier.bridge
  }

  get wire(): Wire {
    return this.#carrier.wire
  }

  get rates(): LinkRates {
    return this.#carrier.rates
  }

  get ended(): boolean {
    return this.#ended !== undefined
  }

  exchange(base: number, rows: States, want: number, form: RowsForm = {}): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended)
      this.#seq += 1
      const header = { type: 'rows', session: this.id, epoch: this.#epoch, seq: this.#seq, base, want } as const
      const frame = encodeFrame(header, rows, { wire: this.wire, ...form })
      const sentMs = this.#carrier.clock.nowMs()
      const settled = this.#carrier.send(frame, headerBytes + Math.max(want, form.paddedRows ?? 0) * rowBytes('fp16', rows.width))
      this.#waiting.set(this.#seq, { width: rows.width, bytesUp: frame.byteLength, sentMs, settled, resolve, reject })
    })
  }

  close(): void {
    void this.#leave()
  }

  closeAndCache(length: number): Promise<string | undefined> {
    return this.#leave(length)
  }

  async #leave(keep?: number): Promise<string | undefined> {
    if (this.#ended) return undefined
    this.end(new BrimError('CANCELED', 'the session was closed'))
    return this.#carrier.onClose(keep)
  }

  /** A frame of this session; what answers nothing that we wait for, or an earlier epoch, is dropped. */
  receive(frame: Frame): void {
    if (frame.epoch !== this.#epoch) return
    if (frame.type === 'fault') this.end(faultError(frame))
    else this.#answer(frame)
  }

  /** The session is over: everything that waits, and whatever is asked later, rejects with `reason`. */
  end(reason: BrimError): void {
    if (this.#ended) return
    this.#ended = reason
    for (const { settled, reject } of this.#waiting.values()) {
      settled()
      reject(reason)
    }
    this.#waiting.clear()
  }

  #measure(frame: Frame, { bytesUp, sentMs }: Waiting): void {
    const answeredS = this.#carrier.clock.nowMs() / 1_000
    const bytesDown = headerBytes + frame.payload.byteLength
    this.rates.answered({ bytesUp, bytesDown, sentS: sentMs / 1_000, answeredS, cloudS: cloudSeconds(frame) })
  }

  #answer(frame: Frame): void {
    const waiting = this.#waiting.get(frame.seq)
    if (!waiting) return
    this.#waiting.delete(frame.seq)
    waiting.settled()
    if (frame.type === 'deep') this.#measure(frame, waiting)
    try {
      waiting.resolve(readReply(frame, waiting.width))
    } catch (error) {
      waiting.reject(error)
    }
  }
}

/** Both ends' clocks never meet: the bridge says how long it had the frame, the rest is the way. */
function cloudSeconds({ queueMs, computeMs }: Frame): number {
  const seconds = (queueMs + computeMs) / 1_000
  return Number.isFinite(seconds) && seconds > 0 ? seconds : 0
}

function readReply(frame: Frame, width: number): Reply {
  switch (frame.type) {
    case 'deep':
      return { kind: 'deep', states: decodeStates(frame, width), queueMs: frame.queueMs, computeMs: frame.computeMs }
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

/** An error that the bridge reported; a code of a newer release becomes LINK_LOST, its name kept in the message. */
export function remoteError(code: string, message: string, retryAfterMs?: number): BrimError {
  const later = retryAfterMs === undefined ? {} : { retryAfterMs, hint: `try again in ${retryAfterMs} ms` }
  if (isErrorCode(code)) return new BrimError(code, `the bridge: ${message}`, later)
  return new BrimError('LINK_LOST', `the bridge ended the session: ${message} (${code})`, later)
}

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code)
