import { phaseOf } from '../../../core/policy/serving/phase.ts'
import type { Reader } from '../../../core/policy/serving/reader.ts'
import type { ServedStream } from '../../../core/policy/serving/served-stream.ts'
import type { ServingInput } from '../../../core/policy/serving/serving-events.ts'
import type { EngineRows, SimulatedEngineSession } from './engine.ts'

/** What sessions ask of the engine. */
export interface SessionHost {
  readonly nowMs: number
  feed(input: ServingInput): void
  /** @throws Error where it is not open */
  stream(id: number): Readonly<ServedStream>
  /** The stream takes part in nothing any more; its memory is free after the step that holds it, if any. */
  close(id: number): void
}

interface Piece {
  readonly rows: EngineRows
  readonly sentMs: number
  /** Rows that are not computed. */
  left: number
}

interface SessionLimits {
  /** More rows than this count as a prompt, whatever they are. */
  readonly maxDecodeRows: number
  /** That the stream is charged before its first row. */
  readonly firstPositions: number
}

/** A device's stream: its pieces of rows are computed one after the other. Mutable. */
export class SessionRun implements SimulatedEngineSession {
  /** Of its beginning, in a cached prefix. */
  #cachedRows: number
  readonly #id: number
  readonly #host: SessionHost
  readonly #limits: SessionLimits
  /** That are not computed, in the order in which they were sent. */
  readonly #pieces: Piece[] = []
  /** How many of them have begun. */
  #begun = 0
  #state: 'waits' | 'open' | 'failed' | 'closed' = 'waits'

  constructor(id: number, cachedRows: number, host: SessionHost, limits: SessionLimits) {
    this.#id = id
    this.#cachedRows = cachedRows
    this.#host = host
    this.#limits = limits
  }

  open(reader: Reader | undefined): void {
    const { firstPositions: positions } = this.#limits
    this.#host.feed({ kind: 'session opened', stream: this.#id, owner: `${this.#id}`, client: '', positions, reader })
    // The bridge says how many rows it has as it opens the session. This one has none, so the device sends all of them.
    this.#cachedRows = 0
  }

  get contextLength(): number {
    return this.#state === 'open' ? this.#host.stream(this.#id).contextLength : 0
  }

  send(rows: EngineRows): void {
    this.#pieces.push({ rows, sentMs: this.#host.nowMs, left: rows.rows })
    if (this.#state === 'failed') this.#fail()
    else this.#beginNext()
  }

  truncate(length: number): void {
    if (this.#pieces.length > 0 || length > this.contextLength) throw new RangeError(`no ${length} rows to keep`)
    this.#host.feed({ kind: 'reshaped', stream: this.#id, length, line: length, unmoved: length })
  }

  close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#pieces.length = 0
    this.#begun = 0
    this.#host.close(this.#id)
  }

  /** A step has computed the next `rows` rows; the stream's context holds them. */
  computed(rows: number): void {
    const piece = this.#pieces[0]!
    piece.left -= rows
    if (piece.left > 0) return
    this.#pieces.shift()
    this.#begun -= 1
    this.#beginNext()
    piece.rows.done((this.#host.nowMs - piece.sentMs) / 1_000)
  }

  /** All rows that waited are past the first stage of a pipeline, so that the next ones of a prompt may follow. */
  entered(): void {
    this.#beginNext()
  }

  /** There is memory for its first rows. */
  admitted(): void {
    this.#state = 'open'
    if (this.#cachedRows > 0) this.#host.feed({ kind: 'found', stream: this.#id, rows: this.#cachedRows })
    this.#beginNext()
  }

  /** What waited waits no more, for want of memory. */
  failed(): void {
    this.#state = 'failed'
    this.#fail()
  }

  /** The device is told with its first rows. */
  #fail(): void {
    const [piece] = this.#pieces
    if (!piece) return
    this.close()
    piece.rows.failed?.()
  }

  /** The rows of one piece wait after those of the other. */
  #beginNext(): void {
    const next = this.#pieces[this.#begun]
    if (!next || this.#state !== 'open') return
    const { waitingRows, isBlocked } = this.#host.stream(this.#id)
    if (waitingRows > 0 || isBlocked) return
    const { rows, returned } = next.rows
    this.#begun += 1
    const phase = phaseOf(rows, returned, this.#limits.maxDecodeRows)
    this.#host.feed({ kind: 'rows', stream: this.#id, rows, phase, following: 0 })
  }
}
