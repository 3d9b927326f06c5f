import { concatStates, fromStates, type States, toStates } from '../../wire/protocol/states.ts'
import { graphOutputs, type StatesInputNames } from '../bundle/graph-io.ts'
import type { Packing } from './part-packing.ts'
import type { Runtime, Tensor } from './runtime.ts'

/** Largest finite fp16 value. A row with a larger magnitude is sent as fp32. */
const halfLimit = 65_504

/** Precision of the rows at a cut: rounded to fp16 as on the wire, or fp32. */
export type Cut = 'half' | 'full'

/** Input tensors of a graph with states as input: the rows of all blocks. */
export function statesInputs(
  runtime: Runtime,
  blocks: readonly States[],
  width: number,
  names: StatesInputNames,
): Map<string, Tensor> {
  const block = blocks.length === 1 ? blocks[0]! : concatStates(blocks, width)
  const { rows, half, wide } = block
  if (runtime.device) return new Map([[names.rows, runtime.tensor('float32', [1, rows, width], fromStates(block))]])
  const at = BigInt64Array.from(wide?.index ?? [], BigInt)
  return new Map([
    [names.half, runtime.tensor('float16', [1, rows, width], half)],
    [names.wide, runtime.tensor('float32', [at.length, width], wide?.values ?? new Float32Array(0))],
    [names.wideAt, runtime.tensor('int64', [at.length, 1], at)],
  ])
}

/** @throws RangeError if the block's sizes are inconsistent, which would make the library read out of bounds */
export function checkStates({ rows, width, half, wide }: States, hidden: number): void {
  if (width !== hidden) throw new RangeError(`states have width ${width}, the model has ${hidden}`)
  if (half.length !== rows * width) throw new RangeError(`${half.length} values in ${rows} rows of ${width}`)
  if (!wide) return
  if (wide.values.length !== wide.index.length * width)
    throw new RangeError('the numbers of wide rows and of their indices differ')
  const stray = wide.index.find((row) => !(row >= 0 && row < rows))
  if (stray !== undefined) throw new RangeError(`wide row ${stray} is not in a block of ${rows} rows`)
}

/** Allocates the output tensors of each step and converts them to states. */
export class StatesReceiver {
  readonly #runtime: Runtime
  readonly #width: number
  /** fp32 rows of the current step, reused; only copies are returned. */
  #full = new Float32Array(0)

  constructor(runtime: Runtime, width: number) {
    this.#runtime = runtime
    this.#width = width
  }

  /** @returns output tensors for a number of rows, and the conversion to the items' states after the run */
  prepare(rows: number, cut: Cut) {
    const width = this.#width
    if (this.#full.length < rows * width) this.#full = new Float32Array(rows * width)
    const full = this.#full.subarray(0, rows * width)
    if (this.#runtime.device) return this.#prepareOnDevice(rows, full, cut)
    const half = new Uint16Array(rows * width)
    const peak = new Float32Array(rows)
    return {
      tensors: new Map([
        [graphOutputs.states, this.#runtime.tensor('float32', [1, rows, width], full)],
        [graphOutputs.statesHalf, this.#runtime.tensor('float16', [1, rows, width], half)],
        [graphOutputs.peak, this.#runtime.tensor('float32', [1, rows], peak)],
      ]),
      finish: (returned: Packing['returned']): States[] =>
        returned.map(([from, to]) => {
          const block = { rows: to - from, width, half: half.subarray(from * width, to * width) }
          const index: number[] = []
          for (let row = from; row < to; row++) if (cut === 'full' || peak[row]! > halfLimit) index.push(row - from)
          if (index.length === 0) return block
          const values = new Float32Array(index.length * width)
          index.forEach((row, i) => {
            values.set(full.subarray((from + row) * width, (from + row + 1) * width), i * width)
          })
          return { ...block, wide: { index, values } }
        }),
    }
  }

  /** As `prepare`, for graphs that leave the rounding to the host. */
  #prepareOnDevice(rows: number, full: Float32Array, cut: Cut) {
    const width = this.#width
    return {
      tensors: new Map([[graphOutputs.states, this.#runtime.tensor('float32', [1, rows, width], full)]]),
      finish: (returned: Packing['returned']): States[] =>
        returned.map(([from, to]) => {
          const values = full.subarray(from * width, to * width)
          const block = toStates(values, width)
          if (cut === 'half') return block
          return { ...block, wide: { index: Array.from({ length: to - from }, (_, row) => row), values: values.slice() } }
        }),
    }
  }
}
