import type { Part, Sequence, StepItem } from '../engine/contract.ts'
import { requireFinite } from '../engine/require-finite.ts'
import { chooseTokens, type Sampling, topProbability } from '../engine/sampler.ts'
import type { SharedHead } from '../engine/shared-head.ts'
import { concatStates, type States, sliceStates } from '../protocol/states.ts'
import type { KnownStream } from './device-stream.ts'
import type { DraftedToken, Drafter } from './drafter.ts'
import type { StateRows } from './state-rows.ts'

/** Alternatives per drafted token: drafting ahead begins this many branches beside the draft's own. */
const maxAlternatives = 2

/** HAT's draft model, output ∘ Λ ∘ input. It chooses with the LLM's own noise, so that the two agree as often as possible. */
export function adapterDrafter(adapter: Part, head: SharedHead, sampling: Sampling): Drafter {
  const states = adapter.manifest.features ? new FeatureRows(adapter) : new PlainRows(adapter)
  return {
    async next(known, rows) {
      return head.read(await states.of(known, rows), (logits, at): DraftedToken[] => {
        const position = known.rows.positionOf(rows[at]!) + 1
        const probability = topProbability(logits)
        const [token, ...alternatives] = chooseTokens(logits, sampling, position, 1 + maxAlternatives)
        return [{ token: token!, topProbability: probability, alternatives }]
      })
    },
    catchUp: (known) => states.catchUp(known),
    gather: (keep, rows) => states.gather(keep, rows),
    release: () => states.release(),
  }
}

/** Rows of Λ for the rows of a stream. Its KV may lag behind: after a fully accepted draft the last row is missing. */
interface AdapterRows {
  /** Λ's states of these rows of the stream. */
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
    // Rows drafted ahead too late to be fed are computed again.
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
 * Λ with features (EAGLE, Li et al. 2024, arXiv:2401.15077): the row of a position also reads the deep state of the one
 * before it, or zero where that never comes back (all of the prompt's but the last). Within a draft the deep state of a
 * drafted token does not exist yet: the row after it reads Λ's own state instead, and is computed again when the true one
 * has arrived.
 */
class FeatureRows implements AdapterRows {
  readonly #adapter: Part
  readonly #sequence: Sequence
  /** Leading rows in the KV that have read true features; the rows after them have read predicted ones. */
  #settled = 0
  /** Λ's states of the last settled row and of those after it. */
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
    // Rows that have read predicted features are computed again, whichever of them remain.
    this.#settled = Math.min(keep, this.#settled)
    this.#sequence.truncate(this.#settled)
    this.#predicted.clear()
  }

  release(): void {
    this.#sequence.release()
  }

  /** Computes the rows whose true features have arrived, including rows computed before with predicted ones. */
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

  /** Computes the next rows whose predecessors' states exist: one of a chain, all tips of a tree. */
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

/** For rows [from, to): the deep states of the positions before them, zero rows where there are none. */
function featuresOf(deep: StateRows, from: number, to: number): States {
  const { width, first } = deep
  const rows = Math.min(to, first + 1) - Math.min(from, first + 1)
  const unknown = { rows, width, half: new Uint16Array(rows * width) }
  if (to <= first + 1) return unknown
  return concatStates([unknown, deep.slice(Math.max(first, from - 1), to - 1)], width)
}

async function stepOnce(adapter: Part, item: StepItem): Promise<States> {
  const [states] = await adapter.step([item])
  if (!states) throw new Error('a step of one item returned no states')
  return requireFinite(states, adapter.name)
}
