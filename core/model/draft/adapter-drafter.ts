import { concatStates, type States, sliceStates } from '../../wire/protocol/states.ts'
import type { Part, Sequence, StepItem } from '../engine/contract.ts'
import { stepOnce } from '../engine/require-finite.ts'
import type { Sampling } from '../engine/sampler.ts'
import type { SharedHead } from '../engine/shared-head.ts'
import type { KnownStream } from './device-stream.ts'
import { draftedToken } from './drafted-token.ts'
import type { DraftedToken, Drafter } from './drafter.ts'
import type { RowConstraint } from './row-constraint.ts'
import type { StateRows } from './state-rows.ts'

/** HAT's draft model, output ∘ Λ ∘ input. */
export function adapterDrafter(adapter: Part, head: SharedHead, sampling: Sampling, constraint?: RowConstraint): Drafter {
  const states = adapter.manifest.features ? new FeatureRows(adapter) : new PlainRows(adapter)
  return {
    async next(known, rows) {
      const masks = constraint?.after(known, rows)
      const drafted = await states.of(known, rows)
      const allowed = await masks
      return head.read(drafted, (row, at): DraftedToken[] => {
        return [draftedToken(row, sampling, known.rows.positionOf(rows[at]!) + 1, allowed?.[at])]
      })
    },
    catchUp: (known) => states.catchUp(known),
    gather: (keep, rows) => states.gather(keep, rows),
    release: () => states.release(),
  }
}

/** Λ's rows for a stream. Its KV can be shorter than the stream: after a fully accepted draft the last row is missing. */
interface AdapterRows {
  /** Λ's states at these rows of the stream. */
  of(known: KnownStream, rows: readonly number[]): Promise<States>
  catchUp(known: KnownStream): Promise<void>
  gather(keep: number, rows: readonly number[]): void
  release(): void
}

/** Λ as in HAT Eq. 4: it reads only shallow states, so its computed rows stay valid. */
class PlainRows implements AdapterRows {
  readonly #adapter: Part
  readonly #sequence: Sequence

  constructor(adapter: Part) {
    this.#adapter = adapter
    this.#sequence = adapter.createSequence()
  }

  of(known: KnownStream, rows: readonly number[]): Promise<States> {
    const sequence = this.#sequence
    // A requested row that is already in the KV is computed again for its state.
    sequence.truncate(Math.min(sequence.length, ...rows))
    return this.#step(
      known,
      rows.map((row) => row - sequence.length),
    )
  }

  async catchUp(known: KnownStream): Promise<void> {
    if (known.shallow.length > this.#sequence.length) await this.#step(known, 'none')
  }

  gather(keep: number, rows: readonly number[]): void {
    const { length } = this.#sequence
    const seen = rows.filter((row) => row < length)
    this.#sequence.gather(Math.min(keep, length), seen)
  }

  release(): void {
    this.#sequence.release()
  }

  #step({ shallow, rows }: KnownStream, select: StepItem['select']): Promise<States> {
    const sequence = this.#sequence
    const from = sequence.length
    const states = shallow.slice(from, shallow.length)
    return stepOnce(this.#adapter, { sequence, states, parents: rows.parentsFrom(from), select })
  }
}

/**
 * Λ with features (EAGLE, Li et al. 2024, arXiv:2401.15077): a row also reads the deep state of the position before it, or
 * zeros if the bridge does not return it (all of the prompt's but the last). Drafted tokens have no deep state yet: the row
 * after one reads Λ's state instead, and is computed again when the deep state has arrived.
 */
class FeatureRows implements AdapterRows {
  readonly #adapter: Part
  readonly #sequence: Sequence
  /** Number of leading rows in the KV that have read deep states; the rows after them have read Λ's states. */
  #settled = 0
  /** Λ's states of the last settled row and of the rows after it. */
  readonly #predicted = new Map<number, States>()

  constructor(adapter: Part) {
    this.#adapter = adapter
    this.#sequence = adapter.createSequence()
  }

  async of(known: KnownStream, rows: readonly number[]): Promise<States> {
    await this.#settle(known, 'last')
    while (this.#sequence.length < known.shallow.length) await this.#predict(known)
    return concatStates(
      rows.map((row) => this.#stateOf(row)),
      known.shallow.width,
    )
  }

  catchUp(known: KnownStream): Promise<void> {
    return this.#settle(known, 'none')
  }

  gather(keep: number): void {
    // All rows that have read predicted features are computed again.
    this.#settled = Math.min(keep, this.#settled)
    this.#sequence.truncate(this.#settled)
    this.#predicted.clear()
  }

  release(): void {
    this.#sequence.release()
  }

  /** Computes the rows whose deep states have arrived, including rows computed before with predicted features. */
  async #settle({ shallow, deep }: KnownStream, select: 'last' | 'none'): Promise<void> {
    const from = this.#settled
    const to = Math.min(shallow.length, deep.length + 1)
    if (to <= from) return
    this.#sequence.truncate(from)
    this.#predicted.clear()
    const item = { sequence: this.#sequence, states: shallow.slice(from, to), features: featuresOf(deep, from, to), select }
    const states = await stepOnce(this.#adapter, item)
    if (select === 'last') this.#predicted.set(to - 1, states)
    this.#settled = to
  }

  /** Computes the next rows whose parents have states: one row of a chain, or one level of a tree. */
  async #predict({ shallow, rows }: KnownStream): Promise<void> {
    const from = this.#sequence.length
    let to = from + 1
    while (to < shallow.length && rows.parentOf(to) < from) to += 1
    const parents = rows.parentsFrom(from).slice(0, to - from)
    const features = concatStates(
      parents.map((parent) => this.#stateOf(parent)),
      shallow.width,
    )
    const item = { sequence: this.#sequence, states: shallow.slice(from, to), features, parents, select: 'all' as const }
    const states = await stepOnce(this.#adapter, item)
    for (let row = from; row < to; row++) this.#predicted.set(row, sliceStates(states, row - from, row - from + 1))
  }

  #stateOf(row: number): States {
    const states = this.#predicted.get(row)
    if (!states) throw new Error(`the state of row ${row} has been dropped`)
    return states
  }
}

/** For rows [from, to): the deep states of the positions before them, or zeros. */
function featuresOf(deep: StateRows, from: number, to: number): States {
  const { width, first } = deep
  const rows = Math.min(to, first + 1) - Math.min(from, first + 1)
  const unknown = { rows, width, half: new Uint16Array(rows * width) }
  if (to <= first + 1) return unknown
  return concatStates([unknown, deep.slice(Math.max(first, from - 1), to - 1)], width)
}
