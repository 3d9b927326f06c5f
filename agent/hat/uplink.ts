import { BrimError } from '../../core/base/errors.ts'
import type { StateRows } from '../../core/draft/state-rows.ts'
import { requireFinite } from '../../core/engine/require-finite.ts'
import type { States } from '../../core/protocol/states.ts'
import type { LinkSession, Reply } from '../link/link-session.ts'

/** Frames that may be unanswered whatever the link: while one is computed at the bridge, the next is on its way. */
const leastUnderWay = 2
/** A hidden value on the wire. */
const halfBytes = 2

/** Brings shallow rows to the bridge and deep rows back; fills the holes that the bridge reports. */
export class Uplink {
  /** Rows, either way, that fp16 could not hold. */
  wideRows = 0
  readonly #session: LinkSession
  readonly #rows: StateRows
  #underWay: { rows: number; reply: Promise<Reply> }[] = []
  #last: { to: number; want: number; deep: States | undefined } = { to: 0, want: 0, deep: undefined }
  /** Length that the bridge holds, where it found a hole. */
  #gap: number | undefined

  constructor(session: LinkSession, rows: StateRows) {
    this.#session = session
    this.#rows = rows
  }

  /** Sends rows [from, to); the deep states of the last `want` are for `settle`. */
  async send(from: number, to: number, want: number): Promise<void> {
    while (this.#isFull(to - from)) await this.#takeAnswer()
    this.#last = { to, want, deep: undefined }
    this.#exchange(from, to, want)
  }

  /**
   * Back-pressure: beside what the link and the bridge hold at once (β_up over the round trip) only one more frame of
   * this size waits to be sent. More would only be in the way of other sessions' next tokens.
   */
  #isFull(rows: number): boolean {
    if (this.#underWay.length < leastUnderWay) return false
    const { upBytesPerS = 0, rttS, cloudS } = this.#session.rates
    const bytesPerRow = this.#rows.width * halfBytes
    const held = this.#underWay.reduce((sum, frame) => sum + frame.rows, 0) * bytesPerRow
    return held > upBytesPerS * (rttS + cloudS) + rows * bytesPerRow
  }

  /**
   * Waits for everything under way.
   * @returns the deep states asked for with the last `send`
   * @throws BrimError LINK_LOST, CANCELED, RUNTIME_FAILED (middle part), and the codes of the bridge's faults
   */
  async settle(): Promise<States> {
    while (this.#underWay.length > 0) await this.#takeAnswer()
    if (this.#gap !== undefined) await this.#replay(this.#gap)
    const { deep, want } = this.#last
    if (deep?.rows !== want)
      throw new BrimError('FRAME_INVALID', `the bridge returned ${deep?.rows ?? 0} of the ${want} rows asked for`)
    return requireFinite(deep, 'middle')
  }

  /** Sends again what the bridge does not hold, the same bytes, in frames no larger than a prompt's. */
  async #replay(from: number): Promise<void> {
    const { to, want } = this.#last
    this.#gap = undefined
    for (let at = from; at < to; ) {
      // The frame that ends it brings all the rows that are wanted back.
      const rest = to - at
      const end = rest <= Math.max(this.#session.chunkTokens, want) ? to : Math.min(at + this.#session.chunkTokens, to - want)
      this.#exchange(at, end, end === to ? want : 0)
      await this.#takeAnswer()
      if (this.#gap !== undefined)
        throw new BrimError('LINK_LOST', `the bridge lost this session's rows again while they were sent anew`)
      at = end
    }
  }

  #exchange(from: number, to: number, want: number): void {
    const rows = this.#rows.slice(from, to)
    this.wideRows += rows.wide?.index.length ?? 0
    const reply = this.#session.exchange(from, rows, want)
    // It is awaited later, perhaps after something else has failed.
    reply.catch(() => {})
    this.#underWay.push({ rows: to - from, reply })
  }

  async #takeAnswer(): Promise<void> {
    const reply = await this.#underWay[0]?.reply
    this.#underWay.shift()
    if (reply?.kind === 'gap') {
      this.#gap = Math.min(reply.length, this.#gap ?? reply.length)
    } else if (reply) {
      this.wideRows += reply.states.wide?.index.length ?? 0
      this.#last.deep = reply.states
    }
  }
}
