import type { Random } from '../../../core/kit/base/random.ts'
import { TensorFiles } from '../../../core/model/bundle/tensor-files.ts'
import type { Sending } from '../../../core/model/privacy/observation.ts'
import { fromStates, toStates } from '../../../core/wire/protocol/states.ts'
import { normal } from './disguises.ts'

/** A pair of layers at the cut that scripts/train/train_cut.py has trained; see cut.py. */
export interface LearnedCut {
  /** Code and noise of each state, in rows of the model's width with zeros behind the code. */
  readonly send: Sending
  /** The same without the noise. */
  readonly known: Sending
  /** What the bridge makes of it. The row of position 0 stays as it is, both ways. */
  readonly read: Sending
}

/** @throws BrimError SAFETENSORS_INVALID */
export async function readLearnedCut(path: string, random: Random): Promise<LearnedCut> {
  await using file = await TensorFiles.open([path])
  const read = async (name: string): Promise<Matrix> => {
    const { shape } = file.find(name)!
    const values = new Float32Array(shape.reduce((product, size) => product * size, 1))
    await file.read(name, 0, values)
    return { rows: shape[0]!, columns: shape[1] ?? 1, values }
  }
  const [down, up, gate, out] = [await read('down'), await read('up'), await read('gate'), await read('out')]
  const { values: norm } = await read('norm')
  const [noise] = (await read('noise')).values
  const encode = (row: Float32Array, deviation: number) => {
    const scale = 1 / rms(row)
    const normed = row.map((value, at) => value * scale * norm[at]!)
    const code = times(down, normed)
    const unit = 1 / rms(code)
    const sent = new Float32Array(row.length)
    for (const [at, value] of code.entries()) sent[at] = value * unit + (deviation > 0 ? deviation * normal(random) : 0)
    return sent
  }
  const decode = (row: Float32Array) => {
    const code = row.subarray(0, down.rows)
    const gated = times(gate, code).map((value) => value / (1 + Math.exp(-value)))
    const deep = times(out, gated)
    return times(up, code).map((value, at) => value + deep[at]!)
  }
  return { send: byRow((row) => encode(row, noise!)), known: byRow((row) => encode(row, 0)), read: byRow(decode) }
}

const byRow =
  (change: (row: Float32Array) => Float32Array): Sending =>
  (states, base) => {
    const { width } = states
    const values = fromStates(states)
    for (let from = base === 0 ? width : 0; from < values.length; from += width)
      values.set(change(values.slice(from, from + width)), from)
    return toStates(values, width)
  }

interface Matrix {
  readonly rows: number
  readonly columns: number
  /** Row-major. */
  readonly values: Float32Array
}

function times({ rows, columns, values }: Matrix, vector: Float32Array): Float32Array {
  const out = new Float32Array(rows)
  for (let row = 0; row < rows; row++) {
    let sum = 0
    for (let at = 0; at < columns; at++) sum += values[row * columns + at]! * vector[at]!
    out[row] = sum
  }
  return out
}

const rms = (row: Float32Array) => Math.sqrt(row.reduce((sum, value) => sum + value * value, 0) / row.length + 1e-6)
