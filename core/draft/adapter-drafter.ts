import type { Part, Sequence, StepItem } from '../engine/contract.ts'
import { requireFinite } from '../engine/require-finite.ts'
import { chooseToken, type Sampling, topProbability } from '../engine/sampler.ts'
import type { SharedHead } from '../engine/shared-head.ts'
import { concatStates, type States } from '../protocol/states.ts'
import type { KnownStream } from './device-stream.ts'
import type { Drafted, Drafter } from './drafter.ts'
import type { StateRows } from './state-rows.ts'

/** HAT's draft model: output ∘ Λ ∘ input. Its choices use the LLM's own noise, so that they agree as often as can be. */
export function adapterDrafter(adapter: Part, head: SharedHead, sampling: Sampling): Drafter {
  const rows = adapter.manifest.features ? new FeatureRows(adapter) : new PlainRows(adapter)
  return {
    async next(known) {
      return head.read(
        await rows.last(known),
        (logits): Drafted => ({
          token: chooseToken(logits, sampling, known.ids.length),
          topProbability: topProbability(logits),
        }),
      )
    },
    catchUp: (known) => rows.catchUp(known),
    truncate: (length) => rows.truncate(length),
    release: () => rows.release(),
  }
}

/** Rows of Λ for the positions of a stream. Its KV may lag behind: a fully accepted draft leaves its last row unseen. */
interface AdapterRows {
  /** Λ's row of the stream's last position, of which it has not been asked before. */
  last(known: KnownStream): Promise<States>
  catchUp(known: KnownStream): Promise<void>
  truncate(length: number): void
  release(): void
}

/** Λ as in HAT Eq. 4: it reads shallow states alone, so what it has once computed stays true. */
class PlainRows implements AdapterRows {
  readonly #adapter: Part
  readonly #sequence: Sequence

  constructor(adapter: Part) {
    this.#adapter = adapter
    this.#sequence = adapter.createSequence()
  }

  last(known: KnownStream): Promise<States> {
    return this.#step(known.shallow, 'last')
  }

  async catchUp(known: KnownStream): Promise<void> {
    if (known.shallow.length > this.#sequence.length) await this.#step(known.shallow, 'none')
  }

  truncate(length: number): void {
    this.#sequence.truncate(Math.min(length, this.#sequence.length))
  }

  release(): void {
    this.#sequence.release()
  }

  #step(shallow: StateRows, select: 'last' | 'none'): Promise<States> {
    const sequence = this.#sequence
    return stepOnce(this.#adapter, { sequence, states: shallow.slice(sequence.length, shallow.length), select })
  }
}

/**
 * Λ with features (EAGLE, Li et al. 2024, arXiv:2401.15077): row i also reads the deep state of position i - 1, zero
 * where that never comes back (the prompt's but the last). Within a draft the deep state of a drafted token is not there
 * yet: the row after it reads Λ's own state of that token in its place, and is computed anew once the true one is there.
 */
class FeatureRows implements AdapterRows {
  readonly #adapter: Part
  readonly #sequence: Sequence
  /** Rows in the KV that have read true features; those behind them have read predicted ones. */
  #settled = 0
  /** Λ's row of the last position in the KV. */
  #predicted: States | undefined

  constructor(adapter: Part) {
    this.#adapter = adapter
    this.#sequence = adapter.createSequence()
  }

  async last(known: KnownStream): Promise<States> {
    await this.#settle(known, 'last')
    while (this.#sequence.length < known.shallow.length) {
      const at = this.#sequence.length
      this.#predicted = await this.#step(known.shallow.slice(at, at + 1), this.#predicted, 'last')
    }
    if (!this.#predicted) throw new Error('a row was asked for again')
    return this.#predicted
  }

  catchUp(known: KnownStream): Promise<void> {
    return this.#settle(known, 'none')
  }

  truncate(length: number): void {
    this.#settled = Math.min(length, this.#settled)
    this.#sequence.truncate(this.#settled)
    this.#predicted = undefined
  }

  release(): void {
    this.#sequence.release()
  }

  /** Computes the rows whose features are there, those again that had to do with predicted ones. */
  async #settle({ shallow, deep }: KnownStream, select: 'last' | 'none'): Promise<void> {
    const from = this.#settled
    const to = Math.min(shallow.length, deep.length + 1)
    if (to <= from) return
    this.#sequence.truncate(from)
    const states = await this.#step(shallow.slice(from, to), featuresOf(deep, from, to), select)
    this.#predicted = select === 'last' ? states : undefined
    this.#settled = to
  }

  #step(states: States, features: States | undefined, select: 'last' | 'none'): Promise<States> {
    if (!features) throw new Error('a row without its feature')
    return stepOnce(this.#adapter, { sequence: this.#sequence, states, features, select })
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
