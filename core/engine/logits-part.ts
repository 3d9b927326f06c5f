import { graphInputs, graphOutputs } from '../model/graph-io.ts'
import type { Dims } from '../model/manifest.ts'
import { concatStates, type States, sliceStates } from '../protocol/states.ts'
import { PartSessions, type PartSource } from './part-sessions.ts'
import { SerialQueue } from './serial-queue.ts'
import { checkStates, statesInputs } from './states-tensors.ts'

/** `output` or `medusa`, parts without attention: states → `perRow` vectors of logits for each row. */
export class LogitsPart {
  readonly source: PartSource
  readonly #dims: Dims
  readonly #perRow: number
  readonly #sessions: PartSessions
  readonly #queue = new SerialQueue()

  constructor(source: PartSource, dims: Dims, perRow: number) {
    this.source = source
    this.#dims = dims
    this.#perRow = perRow
    this.#sessions = new PartSessions(source)
  }

  async prepare(): Promise<void> {
    await this.#sessions.open(1)
  }

  /** @returns [rows, perRow, vocab] row-major. @throws RangeError, BrimError RUNTIME_FAILED */
  logits(states: States): Promise<Float32Array> {
    const { hidden, vocab } = this.#dims
    checkStates(states, hidden)
    if (!this.source.needsEvenRows || states.rows % 2 === 0) return this.#queue.run(() => this.#run(states))
    const padded = concatStates([states, sliceStates(states, 0, 1)], hidden)
    return this.#queue.run(async () => (await this.#run(padded)).subarray(0, states.rows * this.#perRow * vocab))
  }

  async release(): Promise<void> {
    await this.#queue.idle()
    await this.#sessions.release()
  }

  async #run(states: States): Promise<Float32Array> {
    const { runtime } = this.source
    const { hidden, vocab } = this.#dims
    const { session } = await this.#sessions.open(1)
    const vectors = states.rows * this.#perRow
    const logits = new Float32Array(vectors * vocab)
    const inputs = statesInputs(runtime, [states], hidden, graphInputs)
    const output = runtime.tensor('float32', [1, vectors, vocab], logits)
    try {
      await session.run(inputs, new Map([[graphOutputs.logits, output]]))
    } finally {
      for (const tensor of [...inputs.values(), output]) tensor.release()
    }
    return logits
  }
}
