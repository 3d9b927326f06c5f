import type { Part, Sequence } from '../engine/contract.ts'
import { requireFinite } from '../engine/require-finite.ts'
import { StateRows } from './state-rows.ts'

/** All that a device knows of one stream of tokens, and so all that a drafter may read. */
export interface KnownStream {
  /** The token of every position, drafted ones included. */
  readonly ids: readonly number[]
  /** Of every position in `ids`. */
  readonly shallow: StateRows
  /** From the prompt's last position to the last verified one: the others never come back from the cloud. */
  readonly deep: StateRows
}

/** A stream that grows by the device's own input steps, and by the deep states that come back. */
export class DeviceStream implements KnownStream {
  readonly shallow: StateRows
  readonly deep: StateRows
  readonly #ids: number[] = []
  readonly #input: Part
  readonly #sequence: Sequence

  /** @param input the bundle's part of that name; `hidden` is the width of its states */
  constructor(input: Part, hidden: number, promptTokens: number) {
    this.#input = input
    this.#sequence = input.createSequence()
    this.shallow = new StateRows(hidden)
    this.deep = new StateRows(hidden, promptTokens - 1)
  }

  get ids(): readonly number[] {
    return this.#ids
  }

  /** Input step: the shallow rows of these tokens, which follow those that are there. @throws BrimError RUNTIME_FAILED */
  async feed(tokens: readonly number[]): Promise<void> {
    const [states] = await this.#input.step([{ sequence: this.#sequence, ids: tokens, select: 'all' }])
    if (!states) throw new Error('a step of one item returned no states')
    this.shallow.append(requireFinite(states, 'input'))
    this.#ids.push(...tokens)
  }

  /** All but the first `length` positions have been rejected. */
  truncate(length: number): void {
    this.#ids.length = length
    this.shallow.truncate(length)
    this.deep.truncate(Math.min(length, this.deep.length))
    this.#sequence.truncate(length)
  }

  release(): void {
    this.#sequence.release()
  }
}
