import { phaseOf } from '../../../core/policy/serving/phase.ts'
import type { EngineRows, EngineSession } from './engine.ts'
import type { SimulatedStream, StreamOwner } from './simulated-stream.ts'
import type { SimulatedTiers } from './simulated-tiers.ts'
import type { OwnerHost } from './stream-host.ts'

interface Piece {
  readonly rows: EngineRows
  readonly sentMs: number
}

interface SessionLimits {
  /** More rows than this count as a prompt, whatever they are. */
  readonly maxDecodeRows: number
  /** That the stream is charged before its first row. */
  readonly firstPositions: number
  /** Rows of a cached prefix with which it begins. */
  readonly held: number
}

/** A device's stream: its pieces of rows are computed one after the other. Mutable. */
export class SessionRun implements StreamOwner, EngineSession {
  readonly #stream: SimulatedStream
  readonly #tiers: SimulatedTiers
  readonly #host: OwnerHost
  readonly #maxDecodeRows: number
  readonly #pieces: Piece[] = []

  constructor(
    stream: SimulatedStream,
    tiers: SimulatedTiers,
    host: OwnerHost,
    { maxDecodeRows, firstPositions, held }: SessionLimits,
  ) {
    this.#stream = stream
    this.#tiers = tiers
    this.#host = host
    this.#maxDecodeRows = maxDecodeRows
    // Otherwise it waits for memory with its first rows.
    if (!tiers.charge(stream, stream.kv.chargeOf(Math.max(firstPositions, held)))) return
    stream.place = 'resident'
    stream.contextLength = held
  }

  get contextLength(): number {
    return this.#stream.contextLength
  }

  send(rows: EngineRows): void {
    this.#pieces.push({ rows, sentMs: this.#host.nowMs })
    if (this.#pieces.length === 1) this.#begin()
  }

  truncate(length: number): void {
    if (this.#pieces.length > 0 || length > this.contextLength) throw new RangeError(`no ${length} rows to keep`)
    this.#stream.truncate(length)
  }

  close(): void {
    this.#pieces.length = 0
    this.#host.close(this.#stream)
  }

  computed(): void {
    if (this.#stream.waitingRows > 0) return
    const piece = this.#pieces.shift()
    if (this.#pieces.length > 0) this.#begin()
    if (piece) piece.rows.done((this.#host.nowMs - piece.sentMs) / 1_000)
  }

  #begin(): void {
    const { rows, returned } = this.#pieces[0]!.rows
    const stream = this.#stream
    stream.wait(rows, phaseOf(rows, returned, this.#maxDecodeRows), this.#host.nowMs)
    if (stream.place === 'resident') this.#tiers.charge(stream, stream.neededBytes)
    this.#host.enqueue(stream)
  }
}
