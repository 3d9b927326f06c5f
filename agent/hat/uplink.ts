import type { ArrivalQueue } from '../../core/kit/base/arrival-queue.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { StateRows } from '../../core/model/draft/state-rows.ts'
import { requireFinite } from '../../core/model/engine/require-finite.ts'
import type { HatEvent, UplinkAction } from '../../core/policy/hat/hat-steps.ts'
import type { OfKind } from '../../core/policy/machine.ts'
import type { States } from '../../core/wire/protocol/states.ts'
import type { LinkSession, PrefixHandle, Reply } from '../link/link-session.ts'
import { PacedFrames, type PacedFramesOptions } from './paced-frames.ts'
import { isLinkFailure } from './reopen.ts'

/**
 * Opens a session in place of another, preferably not at the bridge named; its errors end the answer.
 * @param isLost else the bridge has refused what was sent before it had opened the session
 */
type Reopen = (isLost: boolean, avoid: string | undefined, signal: AbortSignal) => Promise<LinkSession>

/** The sessions of one answer, one after the other: sends its shallow rows and receives the deep ones. */
export class Uplink {
  /** Rows, either way, that fp16 could not hold. */
  wideRows = 0
  readonly #rows: StateRows
  readonly #reopen: Reopen
  readonly #events: ArrivalQueue<HatEvent>
  readonly #closed = new AbortController()
  /** Undefined: frames are sent when they are ready. */
  readonly #paced: PacedFrames | undefined
  /** End of the rows of the verification sent last, and its length in rows. */
  #verified: { readonly to: number; readonly paddedRows: number | undefined } | undefined
  /** Bytes of the sessions before this one. */
  readonly #before = { up: 0, down: 0 }
  #session: LinkSession
  /** Whether the session has ended, and another one is being opened. */
  #isLost = false
  #lastFrame = 0
  /** Of the reply to that frame. */
  #deep: States | undefined
  /** Why the session before this one ended. */
  #lastFailure: BrimError | undefined

  /** @param pace of verifications; undefined: they are sent when they are ready */
  constructor(
    session: LinkSession,
    rows: StateRows,
    reopen: Reopen,
    events: ArrivalQueue<HatEvent>,
    pace?: Omit<PacedFramesOptions, 'cover'> | undefined,
  ) {
    this.#paced = pace && new PacedFrames({ ...pace, cover: () => this.#cover() })
    this.#session = session
    this.#rows = rows
    this.#reopen = reopen
    this.#events = events
  }

  get session(): Pick<LinkSession, 'bridge' | 'chunkTokens' | 'frameTokens' | 'draftLimit' | 'rates' | 'wire'> {
    return this.#session
  }

  get bytesUp(): number {
    return this.#before.up + this.#session.bytesUp
  }

  get bytesDown(): number {
    return this.#before.down + this.#session.bytesDown
  }

  /** As LinkSession.report. */
  report(tokensPerS: number, undelivered: number): void {
    this.#session.report(tokensPerS, undelivered)
  }

  /** The deep states of the last frame. @throws BrimError RUNTIME_FAILED (middle part) */
  takeDeep(): States {
    const deep = this.#deep
    if (!deep) throw new Error('no deep states have arrived')
    this.#deep = undefined
    return requireFinite(deep, 'middle')
  }

  exchange(action: OfKind<UplinkAction, 'exchange'>): void {
    this.#lastFrame = action.frame
    if (this.#paced && !action.ofPrompt) this.#paced.ready(() => this.#send(action))
    else this.#send(action)
  }

  #send({ frame, from, to, returned, paddedRows, tree, ofPrompt }: OfKind<UplinkAction, 'exchange'>): void {
    // Another session has sent its rows again.
    if (frame !== this.#lastFrame && !ofPrompt) return
    const session = this.#session
    if (!ofPrompt) this.#verified = { to, paddedRows }
    const rows = this.#rows.slice(from, to)
    this.wideRows += rows.wide?.index.length ?? 0
    const isStale = () => this.#isLost || session !== this.#session
    session.exchange(from, rows, returned, { paddedRows, tree }).then(
      (reply) => isStale() || this.#onReply(frame, reply),
      (error: unknown) => isStale() || this.#onFailure(frame, error),
    )
  }

  /** Sends the last row again that the bridge holds: it computes the same, and the length is that of every verification. */
  #cover(): void {
    if (this.#isLost || !this.#verified) return
    const { to, paddedRows } = this.#verified
    const end = Math.min(to, this.#rows.length)
    this.#session.exchange(end - 1, this.#rows.slice(end - 1, end), 1, { paddedRows }).catch(() => {
      // The next verification meets the same failure.
    })
  }

  /** Moves to another session, which holds nothing yet; preferably not at a bridge that is alive but failed. */
  reopen({ wrongRows }: OfKind<UplinkAction, 'reopen'>): void {
    if (wrongRows) {
      const { got, wanted } = wrongRows
      this.#lastFailure = new BrimError('FRAME_INVALID', `the bridge returned ${got} of the ${wanted} requested rows`)
    }
    const isLost = this.#session.refusal === undefined
    const avoid = this.#lastFailure?.code === 'LINK_LOST' ? undefined : this.#session.bridge
    this.#isLost = true
    this.#session.close()
    this.#reopen(isLost, avoid, this.#closed.signal).then(
      (session) => this.#onReopened(session),
      (error: unknown) => this.#events.fail(error),
    )
  }

  /** The error of an answer whose rows were lost again and again. */
  lostError({ times }: OfKind<UplinkAction, 'lost'>): BrimError {
    const cause = this.#lastFailure
    return new BrimError('LINK_LOST', `the rows of this session were lost ${times} times in a row`, cause ? { cause } : {})
  }

  /**
   * Closes the session and asks the bridge to cache its first positions.
   * @returns the handle, where the bridge has cached them
   */
  async closeAndCache(length: number): Promise<PrefixHandle | undefined> {
    this.#paced?.close()
    const { bridge } = this.#session
    const handle = await this.#session.closeAndCache(length)
    return handle === undefined ? undefined : { handle, length, bridge }
  }

  /** Frees the KV at the bridge; frames in flight reject with CANCELED. */
  close(): void {
    this.#paced?.close()
    this.#closed.abort(new BrimError('CANCELED', 'the session was closed'))
    this.#session.close()
  }

  #onReply(frame: number, reply: Reply): void {
    if (reply.kind === 'gap') return void this.#events.push({ kind: 'gap', frame, held: reply.length })
    this.wideRows += reply.states.wide?.index.length ?? 0
    if (frame === this.#lastFrame) this.#deep = reply.states
    this.#events.push({ kind: 'replied', frame, rows: reply.states.rows })
  }

  #onFailure(frame: number, error: unknown): void {
    const { refusal } = this.#session
    const cause = refusal ?? error
    if (this.#closed.signal.aborted || !(isOf(refusal, cause) || isLinkFailure(cause) || isFull(cause)))
      return void this.#events.fail(cause)
    this.#lastFailure = cause
    this.#events.push({ kind: 'failed', frame })
  }

  #onReopened(session: LinkSession): void {
    // If the answer was canceled meanwhile, only the old session was closed.
    if (this.#closed.signal.aborted) session.close()
    this.#before.up += this.#session.bytesUp
    this.#before.down += this.#session.bytesDown
    this.#session = session
    this.#isLost = false
    this.#events.push({ kind: 'reopened' })
  }
}

const isOf = (refusal: BrimError | undefined, error: unknown): error is BrimError => refusal !== undefined && error === refusal

/** The bridge has no KV memory for this answer; another bridge may have. */
const isFull = (error: unknown): error is BrimError => error instanceof BrimError && error.code === 'OUT_OF_MEMORY'
