import { concatStates, type States, sliceStates } from '../../wire/protocol/states.ts'
import type { Part, Sequence, StepInput, StepItem } from '../engine/contract.ts'
import { stepOnce } from '../engine/require-finite.ts'
import type { Sampling } from '../engine/sampler.ts'
import type { SharedHead } from '../engine/shared-head.ts'
import type { KnownStream } from './device-stream.ts'
import { draftedToken } from './drafted-token.ts'
import type { DraftedToken, Drafter } from './drafter.ts'
import type { RowConstraint } from './row-constraint.ts'
import type { StateRows } from './state-rows.ts'

/**
 * HAT's draft model, output ∘ Λ ∘ input, or a draft head.
 * @param head what reads the adapter's states: `output`, of a draft head `draft-output`
 */
export function adapterDrafter(adapter: Part, head: SharedHead, sampling: Sampling, constraint?: RowConstraint): Drafter {
  const states = rowsOf(adapter)
  return {
    async next(known, rows) {
      const masks = constraint?.after(known, rows)
      const drafted = await states.of(known, rows)
      const allowed = await masks
      return head.read(drafted, (row, at): DraftedToken[] => {
        return [draftedToken('adapter', row, sampling, known.rows.positionOf(rows[at]!) + 1, allowed?.[at])]
      })
    },
    catchUp: (known) => states.catchUp(known),
    gather: (keep, rows) => states.gather(keep, rows),
    release: () => states.release(),
  }
}

/** Of a step: an answer that continues another has a long prefix to read at once. */
const maxStepRows = 256

function rowsOf(adapter: Part): AdapterRows {
  const { features, draftHead } = adapter.manifest
  if (draftHead) return new FeatureRows(adapter, draftHeadForm)
  return features ? new FeatureRows(adapter, adapterForm) : new PlainRows(adapter)
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
    while (this.#sequence.length + maxStepRows < known.rows.line)
      await this.#step(known, 'none', this.#sequence.length + maxStepRows)
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

  #step({ shallow, rows }: KnownStream, select: StepItem['select'], to = shallow.length): Promise<States> {
    const sequence = this.#sequence
    const from = sequence.length
    const states = shallow.slice(from, to)
    const parents = to < shallow.length ? undefined : rows.parentsFrom(from)
    return stepOnce(this.#adapter, { sequence, states, parents, select })
  }
}

/** What an adapter with features reads, and from which row of the stream on. */
interface FeatureForm {
  firstRow(known: KnownStream): number
  /** Rows [from, to) with the deep states of the positions before them. */
  settled(known: KnownStream, from: number, to: number): StepInput
  /** Rows [from, to) with the adapter's states of the rows before them, which are `predicted`. */
  drafted(known: KnownStream, from: number, to: number, predicted: States): StepInput
}

/** Λ with features: zeros where the bridge does not return the deep state (all of the prompt's but the last). */
const adapterForm: FeatureForm = {
  firstRow: () => 0,
  settled: ({ shallow, deep }, from, to) => ({ states: shallow.slice(from, to), features: featuresOf(deep, from, to) }),
  drafted: ({ shallow }, from, to, features) => ({ states: shallow.slice(from, to), features }),
}

/** A draft head has never seen a row without a feature, so that it begins at the first row that has one. */
const draftHeadForm: FeatureForm = {
  firstRow: ({ deep }) => deep.first + 1,
  settled: ({ ids, deep }, from, to) => {
    const features = deep.slice(from - 1, to - 1)
    return { ids: ids.slice(from, to), states: zeros(to - from, deep.width), features }
  },
  drafted: ({ ids, deep }, from, to, states) => ({ ids: ids.slice(from, to), states, features: zeros(to - from, deep.width) }),
}

/**
 * An adapter with features (EAGLE, Li et al. 2024, arXiv:2401.15077): a row also reads the deep state of the position before it.
 * Drafted tokens have no deep state yet: the row after one reads the adapter's state instead, and is computed again when the
 * deep state has arrived.
 */
class FeatureRows implements AdapterRows {
  readonly #adapter: Part
  readonly #form: FeatureForm
  readonly #sequence: Sequence
  /** The row of the stream that is the sequence's first; undefined before the first step. */
  #first: number | undefined
  /** The row after the leading rows in the KV that have read deep states; the rows from it on have read the adapter's states. */
  #settled = 0
  /** The adapter's states of the last settled row and of the rows after it. */
  readonly #predicted = new Map<number, States>()

  constructor(adapter: Part, form: FeatureForm) {
    this.#adapter = adapter
    this.#form = form
    this.#sequence = adapter.createSequence()
  }

  async of(known: KnownStream, rows: readonly number[]): Promise<States> {
    await this.#settle(known, 'last')
    while (this.#begin(known) + this.#sequence.length < known.shallow.length) await this.#predict(known)
    return concatStates(
      rows.map((row) => this.#stateOf(row)),
      known.shallow.width,
    )
  }

  catchUp(known: KnownStream): Promise<void> {
    return this.#settle(known, 'none')
  }

  gather(keep: number): void {
    if (this.#first === undefined) return
    // All rows that have read predicted features are computed again.
    this.#settled = Math.max(this.#first, Math.min(keep, this.#settled))
    this.#sequence.truncate(this.#settled - this.#first)
    this.#predicted.clear()
  }

  release(): void {
    this.#sequence.release()
  }

  #begin(known: KnownStream): number {
    if (this.#first === undefined) {
      this.#first = this.#form.firstRow(known)
      this.#settled = this.#first
    }
    return this.#first
  }

  /** Computes the rows whose deep states have arrived, including rows computed before with predicted features. */
  async #settle(known: KnownStream, select: 'last' | 'none'): Promise<void> {
    const first = this.#begin(known)
    const end = Math.min(known.shallow.length, known.deep.length + 1)
    while (this.#settled + maxStepRows < end) await this.#settleTo(this.#settled + maxStepRows, known, first, 'none')
    if (this.#settled < end) await this.#settleTo(end, known, first, select)
  }

  async #settleTo(to: number, known: KnownStream, first: number, select: 'last' | 'none'): Promise<void> {
    const from = this.#settled
    this.#sequence.truncate(from - first)
    this.#predicted.clear()
    const item = { ...this.#form.settled(known, from, to), sequence: this.#sequence, select }
    const states = await stepOnce(this.#adapter, item)
    if (select === 'last') this.#predicted.set(to - 1, states)
    this.#settled = to
  }

  /** Computes the next rows whose parents have states: one row of a chain, or one level of a tree. */
  async #predict(known: KnownStream): Promise<void> {
    const { shallow, rows } = known
    const first = this.#begin(known)
    const from = first + this.#sequence.length
    let to = from + 1
    while (to < shallow.length && rows.parentOf(to) < from) to += 1
    const parents = rows.parentsFrom(from).slice(0, to - from)
    const predicted = concatStates(
      parents.map((parent) => this.#stateOf(parent)),
      shallow.width,
    )
    const input = this.#form.drafted(known, from, to, predicted)
    const own = { sequence: this.#sequence, parents: parents.map((parent) => parent - first), select: 'all' as const }
    const states = await stepOnce(this.#adapter, { ...input, ...own })
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
  const unknown = zeros(rows, width)
  if (to <= first + 1) return unknown
  return concatStates([unknown, deep.slice(Math.max(first, from - 1), to - 1)], width)
}

const zeros = (rows: number, width: number): States => ({ rows, width, half: new Uint16Array(rows * width) })
