import type { HatConditions, UplinkAction, UplinkEvent } from './hat-steps.ts'
import { maySend } from './in-flight.ts'

/** Replays in a row after which the answer fails. */
const maxReplays = 5

export interface FrameRows {
  readonly from: number
  readonly to: number
  /** Rows at the end whose deep states are wanted. */
  readonly returned: number
  /** Of a draft that branches, see FrameTree; `keepRows` then names the rows kept of it. */
  readonly parents: readonly number[]
  /** Whether they are those of a prompt, and not of a verification. */
  readonly ofPrompt?: boolean | undefined
}

/**
 * The frames of one answer. Rows that a bridge has lost are sent again: from where it reports a gap, and from the first row at
 * a new session after link or bridge failed. Mutable.
 */
export class UplinkFlow {
  /** Sessions opened in place of lost ones. */
  failovers = 0
  /** Whether the deep states are there that `settle` waits for. */
  isSettled = false
  readonly #bytesPerToken: number
  readonly #emit: (action: UplinkAction) => void
  #frames: { readonly id: number; readonly rows: number }[] = []
  #lastId = 0
  #last: FrameRows = { from: 0, to: 0, returned: 0, parents: [] }
  /** Of the reply to the last frame; undefined before it is there. */
  #deepRows: number | undefined
  /** Rows kept of the tree in this session's last frame; undefined where it had none. */
  #kept: readonly number[] | undefined
  /** Rows that the bridge holds, where later rows are missing. */
  #gap: number | undefined
  #isReopening = false
  /** Whether all replies are awaited. */
  #isSettling = false
  #replays = 0
  /** The next row to send again. */
  #replayAt: number | undefined

  constructor(bytesPerToken: number, emit: (action: UplinkAction) => void) {
    this.#bytesPerToken = bytesPerToken
    this.#emit = emit
  }

  /** Positions that the bridge holds as a chain. */
  get chain(): number {
    if (!this.#kept) return Number.POSITIVE_INFINITY
    const branches = this.#kept.findIndex((row, at) => row !== at)
    return this.#last.to - this.#last.returned + (branches < 0 ? this.#kept.length : branches)
  }

  /** @returns false while too much is on its way: to be tried again after the next reply */
  send(frame: FrameRows, conditions: HatConditions): boolean {
    // The bridge cannot compute rows after a gap: `settle` sends everything from there.
    if (this.#gap === undefined && !this.#maySend(frame.to - frame.from, conditions)) return false
    this.#last = frame
    this.#deepRows = undefined
    this.isSettled = false
    if (this.#gap === undefined) this.#exchange(frame.from, frame.to, frame.returned, conditions)
    return true
  }

  /** Awaits the replies to all frames. */
  settle(conditions: HatConditions): void {
    this.#isSettling = true
    this.#replays = 0
    this.#advance(conditions)
  }

  /** The rows kept of the draft sent last, counted from its first. A branching draft's are sent with the next frame. */
  keepRows(rows: readonly number[]): void {
    if (this.#last.parents.length > 0) this.#kept = rows
  }

  on(event: UplinkEvent, conditions: HatConditions): void {
    if (event.kind === 'reopened') {
      this.#isReopening = false
      // The replay makes it a chain.
      this.#kept = undefined
      this.failovers += 1
    } else if (!this.#take(event.frame)) return
    else if (event.kind === 'failed') this.#lose({ kind: 'reopen' })
    else if (event.kind === 'gap') this.#gap = Math.min(event.held, this.#gap ?? event.held)
    else if (event.frame === this.#lastId) this.#deepRows = event.rows
    this.#advance(conditions)
  }

  /** Frames of a lost session are forgotten. */
  #take(id: number): boolean {
    const at = this.#frames.findIndex((frame) => frame.id === id)
    if (at >= 0) this.#frames.splice(at, 1)
    return at >= 0
  }

  #advance(conditions: HatConditions): void {
    if (this.#isReopening) return
    this.#replay(conditions)
    if (!this.#isSettling || this.#frames.length > 0) return
    const { returned } = this.#last
    if (this.#gap === undefined && this.#deepRows === returned) {
      this.#isSettling = false
      this.isSettled = true
    } else if (this.#replays === maxReplays) this.#emit({ kind: 'lost', times: maxReplays + 1 })
    // A bridge that returns the wrong rows cannot be trusted with the rest.
    else if (this.#gap === undefined) this.#lose({ kind: 'reopen', wrongRows: { got: this.#deepRows ?? 0, wanted: returned } })
    else {
      this.#replays += 1
      this.#deepRows = undefined
      this.#replayAt = this.#gap
      this.#gap = undefined
      this.#replay(conditions)
    }
  }

  /** Sends the rows again that the bridge does not hold, in frames no larger than a prompt's. */
  #replay(conditions: HatConditions): void {
    const { to, returned, parents } = this.#last
    const chunkTokens = conditions.paddedPromptRows ?? conditions.chunkTokens
    while (this.#replayAt !== undefined && this.#replayAt < to && this.#gap === undefined) {
      const from = this.#replayAt
      // The last frame has all the rows whose deep states are wanted; a tree has a separate frame.
      const left = to - from
      const isLast = parents.length > 0 ? left <= returned : left <= Math.max(chunkTokens, returned)
      const end = isLast ? to : Math.min(from + chunkTokens, to - returned)
      if (!this.#maySend(end - from, conditions)) return
      this.#replayAt = isLast ? undefined : end
      this.#exchange(from, end, isLast ? returned : 0, conditions)
    }
    this.#replayAt = undefined
  }

  #lose(reopen: UplinkAction): void {
    this.#frames = []
    this.#isReopening = true
    this.#replayAt = undefined
    this.#gap = 0
    this.#emit(reopen)
  }

  #maySend(rows: number, conditions: HatConditions): boolean {
    let inFlight = 0
    for (const frame of this.#frames) inFlight += frame.rows
    const bytes = inFlight * this.#bytesPerToken
    return maySend({ frames: this.#frames.length, bytes }, rows * this.#bytesPerToken, conditions)
  }

  #exchange(from: number, to: number, returned: number, { paddedRows, paddedPromptRows }: HatConditions): void {
    const verifies = returned === to - from
    const ofPrompt = !verifies || this.#last.ofPrompt
    const parents = verifies ? this.#last.parents : []
    const tree = parents.length > 0 || this.#kept ? { kept: this.#kept ?? [], parents } : undefined
    this.#kept = undefined
    this.#lastId += 1
    this.#frames.push({ id: this.#lastId, rows: to - from })
    // The only row of a prompt looks like its other frames only where those are padded.
    const padded = ofPrompt && (paddedPromptRows !== undefined || !verifies) ? paddedPromptRows : paddedRows
    const what = paddedPromptRows === undefined ? {} : { ofPrompt }
    this.#emit({ kind: 'exchange', frame: this.#lastId, from, to, returned, tree, paddedRows: padded, ...what })
  }
}
