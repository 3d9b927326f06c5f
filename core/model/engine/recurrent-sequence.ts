import { maxStates } from '../bundle/state-shape.ts'
import type { Sequence, StepInput, StepItem } from './contract.ts'
import type { RecurrentState, StatePool } from './recurrent-states.ts'
import { inputFrom, type RowSource, sourcesOf } from './row-sources.ts'
import type { KvSequence } from './sequence.ts'

/** Rows between the states that are kept for prefixes and rollbacks. It doubles where there would be more than `maxBorders`. */
const borderRows = 256
const maxBorders = maxStates - 3

/** Rows that are computed again in a step of their own; fewer pass with the new rows. */
const maxReplayed = 128

/** The state after the first `length` rows. */
interface Snapshot {
  readonly length: number
  readonly state: RecurrentState
}

/**
 * A sequence of a part with recurrent layers: the KV of the layers that attend, and states of the others. A state cannot lose
 * rows, so that the sequence keeps some: the last two, and those at block borders. After a rollback the rows from the last state
 * on are computed again, with the next step. See docs/adr/0026.
 */
export class RecurrentSequence implements Sequence {
  /** Of the layers that attend. Its rows are right although the state may be behind. */
  readonly kv: KvSequence
  readonly #pool: StatePool
  #snapshots: Snapshot[] = []
  /** What each row was computed from. */
  #sources: RowSource[] = []
  #borderRows = borderRows
  #isInStep = false
  #isReleased = false

  constructor(pool: StatePool, kv: KvSequence) {
    this.#pool = pool
    this.kv = kv
  }

  get length(): number {
    return this.#sources.length
  }

  get line(): number {
    return this.length
  }

  get capacity(): number {
    return this.kv.capacity
  }

  get bytes(): number {
    return this.kv.bytes + this.#snapshots.length * this.#pool.bytes
  }

  get rowValues(): number {
    return this.kv.rowValues
  }

  /** With the state that a step writes. */
  get fixedBytes(): number {
    return maxStates * this.#pool.bytes
  }

  get held(): number {
    return this.kv.held === this.kv.length ? this.length : this.kv.held
  }

  readRows(from: number, to: number, into: Float32Array): Promise<void> {
    return this.kv.readRows(from, to, into)
  }

  writeRows(from: number, to: number, rows: Float32Array): void {
    this.kv.writeRows(from, to, rows)
  }

  /** Its states cannot be written back. */
  claim(): boolean {
    this.truncate(0)
    return false
  }

  reserve(length: number): void {
    this.kv.reserve(length)
  }

  truncate(length: number): void {
    if (!(length >= 0 && length <= this.length)) throw new RangeError(`cannot keep ${length} of ${this.length} rows`)
    this.#requireIdle()
    this.kv.truncate(Math.min(length, this.kv.length))
    this.#sources.length = length
    this.#dropSnapshots(({ length: rows }) => rows > length)
  }

  gather(keep: number, rows: readonly number[]): void {
    this.#requireIdle()
    this.kv.gather(keep, rows)
    this.#sources = [...this.#sources.slice(0, keep), ...rows.map((row) => this.#sources[row]!)]
    const moved = rows.findIndex((row, at) => row !== keep + at)
    const unmoved = moved < 0 ? this.length : keep + moved
    this.#dropSnapshots(({ length }) => length > unmoved)
  }

  copyPrefix(from: Sequence, length: number): void {
    this.#requireIdle()
    if (!(from instanceof RecurrentSequence) || from.#pool !== this.#pool) throw new Error('the sequence belongs to another part')
    from.#requireIdle()
    if (!(length >= 0 && length <= Math.min(from.length, from.held)))
      throw new RangeError(`cannot copy ${length} of ${from.length} rows`)
    if (from === this) {
      this.truncate(length)
      return
    }
    this.kv.copyPrefix(from.kv, Math.min(length, from.kv.length))
    this.#sources = from.#sources.slice(0, length)
    this.#dropSnapshots(() => true)
    const nearest = from.#snapshots.findLast((snapshot) => snapshot.length <= length)
    if (!nearest) return
    const state = this.#pool.acquire()
    state.data.set(nearest.state.data)
    this.#snapshots = [{ length: nearest.length, state }]
  }

  /** The last state stays in memory: it is what cannot be computed from the rows that are written back. */
  evict(): void {
    this.#requireIdle()
    this.kv.evict()
    const last = this.#snapshots.at(-1)
    this.#dropSnapshots((snapshot) => snapshot !== last)
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.kv.release()
    if (!this.#isInStep) this.#dropSnapshots(() => true)
  }

  belongsTo(pool: StatePool): boolean {
    return this.#pool === pool
  }

  /** Rows after the last state that were computed before. */
  get behind(): number {
    return this.length - this.#stateLength
  }

  /** Computes rows again until few enough are left for the next step. @param step takes an item for `kv` */
  async catchUp(step: (item: StepItem, replay: RecurrentStep) => Promise<unknown>): Promise<void> {
    while (this.behind > maxReplayed) {
      const from = this.#stateLength
      const replay = this.begin()
      const input = inputFrom(this.#sources.slice(from, from + maxReplayed))
      try {
        await step({ ...input, sequence: this.kv, select: 'none' }, replay)
        this.#push(from + maxReplayed, replay.present)
      } catch (error) {
        this.abort(replay)
        throw error
      } finally {
        this.#endStep()
      }
    }
  }

  /** The rows that a step computes: those after the last state, and new ones. */
  inputFor(item: StepInput): StepInput {
    if (this.behind === 0) return item
    return inputFrom([...this.#sources.slice(this.#stateLength), ...sourcesOf(item)])
  }

  begin(): RecurrentStep {
    const present = this.#pool.acquire()
    this.#isInStep = true
    const from = this.#stateLength
    if (this.kv.length > from) this.kv.truncate(from)
    return { past: this.#snapshots.at(-1)?.state ?? this.#pool.initial, present }
  }

  /** The step has computed these rows, after those that were behind. */
  commit({ present }: RecurrentStep, item: StepInput): void {
    this.#sources.push(...sourcesOf(item))
    this.#push(this.length, present)
    this.#endStep()
  }

  abort({ present }: RecurrentStep): void {
    this.#pool.recycle(present)
    this.#endStep()
  }

  get #stateLength(): number {
    return this.#snapshots.at(-1)?.length ?? 0
  }

  /** Keeps the new state and the one before it, and of the others those at borders. */
  #push(length: number, state: RecurrentState): void {
    this.#snapshots.push({ length, state })
    this.#thin()
    if (this.#snapshots.length <= maxBorders + 2) return
    this.#borderRows *= 2
    this.#thin()
  }

  #thin(): void {
    const last = this.#snapshots.length - 2
    let border = 0
    const kept = new Set<Snapshot>()
    this.#snapshots.forEach((snapshot, at) => {
      if (at < last && snapshot.length - border < this.#borderRows) return
      border = snapshot.length
      kept.add(snapshot)
    })
    this.#dropSnapshots((snapshot) => !kept.has(snapshot))
  }

  #dropSnapshots(isDropped: (snapshot: Snapshot) => boolean): void {
    const dropped = this.#snapshots.filter(isDropped)
    if (dropped.length === 0) return
    this.#snapshots = this.#snapshots.filter((snapshot) => !dropped.includes(snapshot))
    for (const { state } of dropped) this.#pool.recycle(state)
  }

  #endStep(): void {
    this.#isInStep = false
    if (this.#isReleased) this.#dropSnapshots(() => true)
  }

  #requireIdle(): void {
    if (this.#isInStep) throw new Error('a sequence was used while in a step')
  }
}

/** The states before and after a step. */
export interface RecurrentStep {
  readonly past: RecurrentState
  readonly present: RecurrentState
}
