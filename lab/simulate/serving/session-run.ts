import { phaseOf } from '../../../core/policy/serving/phase.ts'
import type { EngineRows, EngineSession } from './engine.ts'
import type { SimulatedStream, StreamOwner } from './simulated-stream.ts'
import type { SimulatedTiers } from './simulated-tiers.ts'
import type { OwnerHost } from './stream-host.ts'

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
  /** Rows of a cached prefix with which it begins. */
  readonly held: number
  /** Absent: rows wait for memory for ever. */
  readonly maxMemoryWaitMs?: number
}

/** A device's stream: its pieces of rows are computed one after the other. Mutable. */
export class SessionRun implements StreamOwner, EngineSession {
  readonly #stream: SimulatedStream
  readonly #tiers: SimulatedTiers
  readonly #host: OwnerHost
  readonly #limits: SessionLimits
  /** That are not computed, in the order in which they were sent. */
  readonly #pieces: Piece[] = []
  /** How many of them have begun. */
  #begun = 0

  constructor(stream: SimulatedStream, tiers: SimulatedTiers, host: OwnerHost, limits: SessionLimits) {
    this.#stream = stream
    this.#tiers = tiers
    this.#host = host
    this.#limits = limits
    const { firstPositions, held } = limits
    // Otherwise it waits for memory with its first rows.
    if (!tiers.charge(stream, stream.kv.chargeOf(Math.max(firstPositions, held)))) return
    stream.place = 'resident'
    stream.contextLength = held
  }

  get contextLength(): number {
    return this.#stream.contextLength
  }

  send(rows: EngineRows): void {
    this.#pieces.push({ rows, sentMs: this.#host.nowMs, left: rows.rows })
    this.#beginNext()
  }

  truncate(length: number): void {
    if (this.#pieces.length > 0 || length > this.contextLength) throw new RangeError(`no ${length} rows to keep`)
    this.#stream.truncate(length)
  }

  close(): void {
    this.#pieces.length = 0
    this.#begun = 0
    this.#host.close(this.#stream)
  }

  computed(rows: number): void {
    const piece = this.#pieces[0]!
    piece.left -= rows
    if (piece.left > 0) return
    this.#pieces.shift()
    this.#begun -= 1
    this.#beginNext()
    piece.rows.done((this.#host.nowMs - piece.sentMs) / 1_000)
  }

  entered(): void {
    this.#beginNext()
  }

  /** The rows of one piece wait after those of the other. */
  #beginNext(): void {
    const stream = this.#stream
    const next = this.#pieces[this.#begun]
    if (!next || stream.waitingRows > 0 || stream.isBlocked) return
    const { rows, returned } = next.rows
    this.#begun += 1
    stream.wait(rows, phaseOf(rows, returned, this.#limits.maxDecodeRows), this.#host.nowMs)
    if (stream.place === 'resident') this.#tiers.charge(stream, stream.neededBytes)
    this.#host.enqueue(stream)
    if (!this.#hasMemory) this.#limitWait()
  }

  get #hasMemory(): boolean {
    return this.#stream.place === 'resident' && this.#stream.growthBytes === 0
  }

  /** As the bridge's deviceMemoryWaitS. */
  #limitWait(): void {
    const { maxMemoryWaitMs } = this.#limits
    const stream = this.#stream
    const { contextLength } = stream
    if (maxMemoryWaitMs === undefined) return
    this.#host.after(maxMemoryWaitMs, () => {
      // Others have taken their place since then.
      if (stream.isClosed || stream.waitingRows === 0 || stream.contextLength !== contextLength) return
      if (stream.isInStep || this.#hasMemory) return
      const [piece] = this.#pieces
      this.close()
      piece?.rows.failed?.()
    })
  }
}
