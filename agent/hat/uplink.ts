import { BrimError } from '../../core/base/errors.ts'
import type { StateRows } from '../../core/draft/state-rows.ts'
import { requireFinite } from '../../core/engine/require-finite.ts'
import { maySend } from '../../core/policy/hat/in-flight.ts'
import { rowBytes } from '../../core/protocol/frame.ts'
import type { States } from '../../core/protocol/states.ts'
import type { LinkSession, Reply, Resume } from '../link/link-session.ts'
import { isLinkFailure } from './reopen.ts'

/** Replays in a row after which the answer fails. */
const maxReplays = 5

/** The rows sent last. */
interface Sent {
  readonly to: number
  readonly want: number
  /** See FrameTree. */
  readonly parents: readonly number[]
  deep: States | undefined
}

/**
 * Sends shallow rows to the bridge and receives deep rows. Rows that a bridge has lost are sent again, the same bytes: from
 * where it reports a gap, and from the first row at a new session after link or bridge failed.
 */
export class Uplink {
  /** Rows, either way, that fp16 could not hold. */
  wideRows = 0
  /** Sessions opened in place of lost ones. */
  failovers = 0
  readonly #rows: StateRows
  readonly #reopen: (avoid: string | undefined) => Promise<LinkSession>
  readonly #verifyRowsAt: (session: LinkSession) => number | undefined
  /** Bytes of the sessions before this one. */
  readonly #before = { up: 0, down: 0 }
  #session: LinkSession
  #closed = false
  #inFlight: { rows: number; reply: Promise<Reply> }[] = []
  #last: Sent = { to: 0, want: 0, parents: [], deep: undefined }
  /** Rows kept of the tree in this session's last frame; undefined where it had none. */
  #kept: readonly number[] | undefined
  /** Why the session before this one ended. */
  #lastFailure: BrimError | undefined
  /** Rows that the bridge holds, where later rows are missing. */
  #gap: number | undefined

  /**
   * @param reopen opens a session in place of a lost one, preferably not at the bridge named; its errors end the answer
   * @param verifyRowsAt rows that each verification of a session is padded to; undefined: no padding
   */
  constructor(
    session: LinkSession,
    rows: StateRows,
    reopen: (avoid: string | undefined) => Promise<LinkSession>,
    verifyRowsAt: (session: LinkSession) => number | undefined,
  ) {
    this.#session = session
    this.#rows = rows
    this.#reopen = reopen
    this.#verifyRowsAt = verifyRowsAt
  }

  /** The current session. */
  get session(): Pick<LinkSession, 'chunkTokens' | 'frameTokens' | 'draftLimit' | 'rates' | 'wire'> {
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

  /**
   * Closes the session and asks the bridge to cache its first positions, at most `length`: fewer where the bridge does not
   * yet know which rows of a tree were kept.
   * @returns the handle, where the bridge has cached them
   */
  async closeAndCache(length: number): Promise<Resume | undefined> {
    this.#closed = true
    const { bridge } = this.#session
    const held = Math.min(length, this.#chain)
    const handle = await this.#session.closeAndCache(held)
    return handle === undefined ? undefined : { handle, length: held, bridge }
  }

  /** Frees the KV at the bridge; frames in flight reject with CANCELED. */
  close(): void {
    this.#closed = true
    this.#session.close()
  }

  /**
   * Sends rows [from, to); the deep states of the last `want` are for `settle`.
   * @param parents of a draft that branches, see FrameTree; `keepRows` then names the rows kept of it
   */
  async send(from: number, to: number, want: number, parents: readonly number[] = []): Promise<void> {
    await this.#awaitCapacity(to - from)
    this.#last = { to, want, parents, deep: undefined }
    // The bridge cannot compute rows after a gap: `settle` sends everything from there.
    if (this.#gap === undefined) this.#exchange(from, to, want)
  }

  /** The rows kept of the draft sent last, counted from its first. A branching draft's are sent to the bridge with the next frame. */
  keepRows(rows: readonly number[]): void {
    if (this.#last.parents.length > 0) this.#kept = rows
  }

  /**
   * Waits for all frames in flight.
   * @returns the deep states requested by the last `send`
   * @throws BrimError LINK_LOST (no bridge available), CANCELED, RUNTIME_FAILED (middle part), and the codes of the bridge's faults
   */
  async settle(): Promise<States> {
    await this.#drain()
    for (let replays = 0; ; replays++) {
      const { deep, want } = this.#last
      if (this.#gap === undefined && deep?.rows === want) return requireFinite(deep, 'middle')
      if (replays === maxReplays) throw this.#lostRows(replays + 1)
      // A bridge that returns the wrong rows cannot be trusted with the rest.
      if (this.#gap === undefined) await this.#failOver(wrongRows(deep?.rows ?? 0, want))
      await this.#replay(this.#gap ?? 0)
    }
  }

  #lostRows(times: number): BrimError {
    const cause = this.#lastFailure
    return new BrimError('LINK_LOST', `the rows of this session were lost ${times} times in a row`, cause ? { cause } : {})
  }

  /** Sends the rows again that the bridge does not hold, in frames no larger than a prompt's. */
  async #replay(from: number): Promise<void> {
    const { to, want, parents } = this.#last
    const { chunkTokens } = this.#session
    this.#gap = undefined
    for (let at = from; at < to; ) {
      // The last frame has all the rows whose deep states are wanted; a tree has a separate frame.
      const left = to - at
      const isLast = parents.length > 0 ? left <= want : left <= Math.max(chunkTokens, want)
      const end = isLast ? to : Math.min(at + chunkTokens, to - want)
      await this.#awaitCapacity(end - at)
      if (this.#gap !== undefined) break
      this.#exchange(at, end, end === to ? want : 0)
      at = end
    }
    await this.#drain()
  }

  async #awaitCapacity(rows: number): Promise<void> {
    const bytesPerRow = rowBytes(this.#session.wire, this.#rows.width)
    const inFlight = () => {
      const bytes = this.#inFlight.reduce((sum, frame) => sum + frame.rows, 0) * bytesPerRow
      return { frames: this.#inFlight.length, bytes }
    }
    while (!maySend(inFlight(), rows * bytesPerRow, this.#session.rates)) await this.#takeReply()
  }

  /** Positions that the bridge holds as a chain. */
  get #chain(): number {
    if (!this.#kept) return Number.POSITIVE_INFINITY
    const branches = this.#kept.findIndex((row, at) => row !== at)
    return this.#last.to - this.#last.want + (branches < 0 ? this.#kept.length : branches)
  }

  async #drain(): Promise<void> {
    while (this.#inFlight.length > 0) await this.#takeReply()
  }

  #exchange(from: number, to: number, want: number): void {
    const rows = this.#rows.slice(from, to)
    this.wideRows += rows.wide?.index.length ?? 0
    const verifies = want === rows.rows
    const parents = verifies ? this.#last.parents : []
    const tree = parents.length > 0 || this.#kept ? { kept: this.#kept ?? [], parents } : undefined
    const paddedRows = verifies ? this.#verifyRowsAt(this.#session) : undefined
    const reply = this.#session.exchange(from, rows, want, { paddedRows, tree })
    this.#kept = undefined
    // Awaited later, perhaps after another failure.
    reply.catch(() => {})
    this.#inFlight.push({ rows: to - from, reply })
  }

  async #takeReply(): Promise<void> {
    let reply: Reply | undefined
    try {
      reply = await this.#inFlight[0]?.reply
    } catch (error) {
      if (this.#closed || !(isLinkFailure(error) || isFull(error))) throw error
      return this.#failOver(error)
    }
    this.#inFlight.shift()
    if (reply?.kind === 'gap') {
      this.#gap = Math.min(reply.length, this.#gap ?? reply.length)
    } else if (reply) {
      this.wideRows += reply.states.wide?.index.length ?? 0
      this.#last.deep = reply.states
    }
  }

  /** Moves to another session, which holds nothing yet; preferably not at a bridge that is alive but failed. */
  async #failOver(failure: BrimError): Promise<void> {
    this.#inFlight = []
    this.#lastFailure = failure
    this.#session.close()
    const session = await this.#reopen(failure.code === 'LINK_LOST' ? undefined : this.#session.bridge)
    // If the answer was canceled meanwhile, only the old session was closed.
    if (this.#closed) session.close()
    this.#before.up += this.#session.bytesUp
    this.#before.down += this.#session.bytesDown
    this.#session = session
    // The replay makes it a chain.
    this.#kept = undefined
    this.#gap = 0
    this.failovers += 1
  }
}

/** The bridge has no KV memory for this answer; another bridge may have. */
const isFull = (error: unknown): error is BrimError => error instanceof BrimError && error.code === 'OUT_OF_MEMORY'

const wrongRows = (got: number, want: number) =>
  new BrimError('FRAME_INVALID', `the bridge returned ${got} of the ${want} requested rows`)
