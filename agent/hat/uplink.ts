import { BrimError } from '../../core/base/errors.ts'
import type { StateRows } from '../../core/draft/state-rows.ts'
import { requireFinite } from '../../core/engine/require-finite.ts'
import { rowBytes } from '../../core/protocol/frame.ts'
import type { States } from '../../core/protocol/states.ts'
import type { LinkSession, Reply, Resume } from '../link/link-session.ts'
import { isLinkFailure } from './reopen.ts'

/** Frames that may be unanswered whatever the link: while one is computed at the bridge, the next is on its way. */
const minInFlight = 2
/** Times in a row that rows are sent again before an answer is given up. */
const maxReplays = 5

/** What was sent last. */
interface Sent {
  readonly to: number
  readonly want: number
  /** See FrameTree. */
  readonly parents: readonly number[]
  deep: States | undefined
}

/**
 * Brings shallow rows to the bridge and deep rows back. Every accepted row is kept, so what a bridge has lost is sent
 * again, the same bytes: where it reports a hole, and from the first row on at a new session when link or bridge died.
 */
export class Uplink {
  /** Rows, either way, that fp16 could not hold. */
  wideRows = 0
  /** Sessions that were opened in place of lost ones. */
  failovers = 0
  readonly #rows: StateRows
  readonly #reopen: (avoid: string | undefined) => Promise<LinkSession>
  readonly #verifyRowsAt: (session: LinkSession) => number | undefined
  /** Bytes of the sessions before this one. */
  readonly #before = { up: 0, down: 0 }
  #session: LinkSession
  #closed = false
  #underWay: { rows: number; reply: Promise<Reply> }[] = []
  #last: Sent = { to: 0, want: 0, parents: [], deep: undefined }
  /** What is left of the tree that this session's last frame brought; undefined: it brought none. */
  #kept: readonly number[] | undefined
  /** Why the session before this one was left. */
  #setback: BrimError | undefined
  /** Length that the bridge holds, where rows after it are missing. */
  #gap: number | undefined

  /**
   * @param reopen a session in place of one that was lost, better not at the bridge named; what it throws ends the answer
   * @param verifyRowsAt all verifications at a session are as long as if they had so many rows; undefined: as they need
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

  /** The terms of the present session. */
  get session(): Pick<LinkSession, 'chunkTokens' | 'frameTokens' | 'draftLimit' | 'rates' | 'wire'> {
    return this.#session
  }

  get bytesUp(): number {
    return this.#before.up + this.#session.bytesUp
  }

  get bytesDown(): number {
    return this.#before.down + this.#session.bytesDown
  }

  /**
   * Asks the bridge to hold on to the first positions, `length` at most: fewer where a tree has been cut down here only.
   * @returns the handle of so many, if it does
   */
  async closeRetaining(length: number): Promise<Resume | undefined> {
    this.#closed = true
    const { bridge } = this.#session
    const held = Math.min(length, this.#line)
    const handle = await this.#session.closeAndCache(held)
    return handle === undefined ? undefined : { handle, length: held, bridge }
  }

  /** Frees the KV at the bridge; what is under way rejects with CANCELED. */
  close(): void {
    this.#closed = true
    this.#session.close()
  }

  /**
   * Sends rows [from, to); the deep states of the last `want` are for `settle`.
   * @param parents for a draft that branches, see FrameTree; what is left of it is told by `keep`
   */
  async send(from: number, to: number, want: number, parents: readonly number[] = []): Promise<void> {
    await this.#makeRoom(to - from)
    this.#last = { to, want, parents, deep: undefined }
    // Behind a hole nothing can be computed: `settle` sends all from there on.
    if (this.#gap === undefined) this.#exchange(from, to, want)
  }

  /** Of the rows sent last, a draft that branches, these are left, counted from its first. The bridge learns it with the next. */
  keepRows(rows: readonly number[]): void {
    if (this.#last.parents.length > 0) this.#kept = rows
  }

  /**
   * Waits for everything under way.
   * @returns the deep states asked for with the last `send`
   * @throws BrimError LINK_LOST (no bridge can be had), CANCELED, RUNTIME_FAILED (middle part), and the codes of the bridge's faults
   */
  async settle(): Promise<States> {
    await this.#drain()
    for (let replays = 0; ; replays++) {
      const { deep, want } = this.#last
      if (this.#gap === undefined && deep?.rows === want) return requireFinite(deep, 'middle')
      if (replays === maxReplays) throw this.#givenUp(replays + 1)
      // A bridge that returns other rows than were asked for cannot be gone on with.
      if (this.#gap === undefined) await this.#failOver(wrongRows(deep?.rows ?? 0, want))
      await this.#replay(this.#gap ?? 0)
    }
  }

  #givenUp(times: number): BrimError {
    const cause = this.#setback
    return new BrimError('LINK_LOST', `the rows of this session were lost ${times} times in a row`, cause ? { cause } : {})
  }

  /** Sends again what the bridge does not hold, the same bytes, in frames no larger than a prompt's. */
  async #replay(from: number): Promise<void> {
    const { to, want, parents } = this.#last
    const { chunkTokens } = this.#session
    this.#gap = undefined
    for (let at = from; at < to; ) {
      // The frame that ends it brings all the rows that are wanted back; a tree has a frame of its own.
      const rest = to - at
      const mayEnd = parents.length > 0 ? rest <= want : rest <= Math.max(chunkTokens, want)
      const end = mayEnd ? to : Math.min(at + chunkTokens, to - want)
      await this.#makeRoom(end - at)
      if (this.#gap !== undefined) break
      this.#exchange(at, end, end === to ? want : 0)
      at = end
    }
    await this.#drain()
  }

  /**
   * Back-pressure: beside what the link and the bridge hold at once (β_up over the round trip) only one more frame of
   * this size waits to be sent. More would only be in the way of other sessions' next tokens.
   */
  async #makeRoom(rows: number): Promise<void> {
    const bytesPerRow = rowBytes(this.#session.wire, this.#rows.width)
    while (this.#underWay.length >= minInFlight) {
      const { upBytesPerS = 0, rttS, cloudS } = this.#session.rates
      const held = this.#underWay.reduce((sum, frame) => sum + frame.rows, 0) * bytesPerRow
      if (held <= upBytesPerS * (rttS + cloudS) + rows * bytesPerRow) return
      await this.#takeAnswer()
    }
  }

  /** Positions that the bridge holds in a line, of those that are left. */
  get #line(): number {
    if (!this.#kept) return Number.POSITIVE_INFINITY
    const branches = this.#kept.findIndex((row, at) => row !== at)
    return this.#last.to - this.#last.want + (branches < 0 ? this.#kept.length : branches)
  }

  async #drain(): Promise<void> {
    while (this.#underWay.length > 0) await this.#takeAnswer()
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
    // It is awaited later, perhaps after something else has failed.
    reply.catch(() => {})
    this.#underWay.push({ rows: to - from, reply })
  }

  async #takeAnswer(): Promise<void> {
    let reply: Reply | undefined
    try {
      reply = await this.#underWay[0]?.reply
    } catch (error) {
      if (this.#closed || !(isLinkFailure(error) || isFull(error))) throw error
      return this.#failOver(error)
    }
    this.#underWay.shift()
    if (reply?.kind === 'gap') {
      this.#gap = Math.min(reply.length, this.#gap ?? reply.length)
    } else if (reply) {
      this.wideRows += reply.states.wide?.index.length ?? 0
      this.#last.deep = reply.states
    }
  }

  /** Another session, which holds nothing yet; better not at a bridge that lives but could not go on. */
  async #failOver(setback: BrimError): Promise<void> {
    this.#underWay = []
    this.#setback = setback
    this.#session.close()
    const session = await this.#reopen(setback.code === 'LINK_LOST' ? undefined : this.#session.bridge)
    // Whoever left meanwhile closed the old one only.
    if (this.#closed) session.close()
    this.#before.up += this.#session.bytesUp
    this.#before.down += this.#session.bytesDown
    this.#session = session
    // It will hold a line only.
    this.#kept = undefined
    this.#gap = 0
    this.failovers += 1
  }
}

/** The bridge has no KV memory left for this answer; another one may have. */
const isFull = (error: unknown): error is BrimError => error instanceof BrimError && error.code === 'OUT_OF_MEMORY'

const wrongRows = (got: number, want: number) =>
  new BrimError('FRAME_INVALID', `the bridge returned ${got} of the ${want} rows asked for`)
