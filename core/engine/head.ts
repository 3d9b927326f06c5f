import { graphOutputs } from '../model/graph-io.ts'
import type { Dims } from '../model/manifest.ts'
import { concatStates, type States } from '../protocol/states.ts'
import type { Head } from './contract.ts'
import { OneAtATime } from './one-at-a-time.ts'
import { PartSessions, type PartSource } from './part-sessions.ts'
import { demandStates, statesInputs } from './states-tensors.ts'

/** `output`: final normalisation and head. */
export class OutputHead implements Head {
  readonly #source: PartSource
  readonly #dims: Dims
  readonly #sessions: PartSessions
  readonly #queue = new OneAtATime()

  constructor(source: PartSource, dims: Dims) {
    this.#source = source
    this.#dims = dims
    this.#sessions = new PartSessions(source)
  }

  async prepare(): Promise<void> {
    await this.#sessions.open(1)
  }

  logits(states: States): Promise<Float32Array> {
    const { hidden, vocab } = this.#dims
    demandStates(states, hidden)
    if (states.rows !== 1 || !this.#source.neverOneRow) return this.#queue.run(() => this.#run(states))
    const twice = concatStates([states, states], hidden)
    return this.#queue.run(async () => (await this.#run(twice)).subarray(0, vocab))
  }

  async release(): Promise<void> {
    await this.#queue.idle()
    await this.#sessions.release()
  }

  async #run(states: States): Promise<Float32Array> {
    const { runtime } = this.#source
    const { hidden, vocab } = this.#dims
    const { session } = await this.#sessions.open(1)
    const logits = new Float32Array(states.rows * vocab)
    const inputs = statesInputs(runtime, [states], hidden)
    const output = runtime.tensor('float32', [1, states.rows, vocab], logits)
    try {
      await session.run(inputs, new Map([[graphOutputs.logits, output]]))
    } finally {
      for (const tensor of [...inputs.values(), output]) tensor.release()
    }
    return logits
  }
}
