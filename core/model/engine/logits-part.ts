import { concatStates, type States, sliceStates } from '../../wire/protocol/states.ts'
import { graphInputs, graphOutputs } from '../bundle/graph-io.ts'
import type { Dims } from '../bundle/manifest.ts'
import { PartSessions, type PartSource } from './part-sessions.ts'
import { SerialQueue } from './serial-queue.ts'
import { checkStates, statesInputs } from './states-tensors.ts'

/** `output`, `draft-output` or `medusa`, parts without attention: states → `perRow` vectors of logits for each row. */
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

  /**
   * @param memory for the result, where it is large enough; default: new memory
   * @returns [rows, perRow, vocab] row-major. @throws RangeError, BrimError RUNTIME_FAILED
   */
  logits(states: States, memory?: ArrayBuffer): Promise<Float32Array<ArrayBuffer>> {
    const { hidden, vocab } = this.#dims
    checkStates(states, hidden)
    if (!this.source.needsEvenRows || states.rows % 2 === 0) return this.#queue.run(() => this.#run(states, memory))
    const padded = concatStates([states, sliceStates(states, 0, 1)], hidden)
    return this.#queue.run(async () => (await this.#run(padded, memory)).subarray(0, states.rows * this.#perRow * vocab))
  }

  async release(): Promise<void> {
    await this.#queue.idle()
    await this.#sessions.release()
  }

  async #run(states: States, memory: ArrayBuffer | undefined): Promise<Float32Array<ArrayBuffer>> {
    const { runtime } = this.source
    const { hidden, vocab } = this.#dims
    const { session } = await this.#sessions.open(1)
    const vectors = states.rows * this.#perRow
    const logits = floatsIn(memory, vectors * vocab)
    const inputs = statesInputs(runtime, [states], hidden, graphInputs)
    const output = runtime.tensor('float32', [1, vectors, vocab], logits)
    try {
      await session.run(inputs, new Map([[graphOutputs.logits, output]]), states.rows)
    } finally {
      for (const tensor of [...inputs.values(), output]) tensor.release()
    }
    return logits
  }
}

/** So many values in this memory, or in new memory where it is smaller. */
export function floatsIn(memory: ArrayBuffer | undefined, values: number): Float32Array<ArrayBuffer> {
  const fits = memory && memory.byteLength >= values * Float32Array.BYTES_PER_ELEMENT
  return fits ? new Float32Array(memory, 0, values) : new Float32Array(values)
}
