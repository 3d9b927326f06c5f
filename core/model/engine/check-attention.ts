import { BrimError } from '../../kit/base/errors.ts'
import { decodeHalves, encodeHalves } from '../../kit/base/half.ts'
import { OnnxGraph } from '../bundle/onnx-writer.ts'
import type { DeviceMemory, Runtime } from './runtime.ts'

const shape = { heads: 2, kvHeads: 1, headDim: 32, capacity: 128, past: 5 } as const
const microsoft = 'com.microsoft'
/** Libraries have other kernels for fewer rows, which need less of a device. */
const fewRows = 31
const manyRows = 70

/**
 * Attention of many rows, computed on a device and here. ONNX Runtime's shader for 32 rows and more assumes groups of at least 8
 * threads, and is wrong without an error on a device that has smaller ones; golden vectors are shorter.
 * @returns rows of a sequence that the device computes right in one step; undefined: any number
 * @throws BrimError PROVIDER_UNAVAILABLE where it is wrong for few rows as well
 */
export async function rowsComputedRight(runtime: Runtime, device: DeviceMemory): Promise<number | undefined> {
  const errorOf = async (rows: number) => largestError(await onDevice(runtime, device, rows), inThisProcess(rows))
  const tolerance = device.type === 'float16' ? 2e-2 : 1e-3
  if ((await errorOf(manyRows)) < tolerance) return undefined
  const error = await errorOf(fewRows)
  if (error < tolerance) return fewRows
  throw new BrimError('PROVIDER_UNAVAILABLE', `${runtime.info.provider} computes attention wrong, by ${error.toPrecision(2)}`, {
    hint: 'update the driver, or compute on the CPU (--provider cpu)',
  })
}

/** Queries, keys and values of the rows after `past` of a line: [rows, (heads + 2 kvHeads) headDim]. */
function packedRows(rows: number): Float32Array {
  const width = (shape.heads + 2 * shape.kvHeads) * shape.headDim
  return Float32Array.from({ length: rows * width }, (_, at) => Math.sin(at * 12.9898 + Math.floor(at / width)))
}

/** [rows, heads headDim] */
async function onDevice(runtime: Runtime, device: DeviceMemory, rows: number): Promise<Float32Array> {
  const { heads, kvHeads, headDim, capacity, past } = shape
  const { type } = device
  const isHalf = type === 'float16'
  const encoded = (values: Float32Array) => {
    const halves = new Uint16Array(values.length)
    if (isHalf) encodeHalves(values, halves)
    return isHalf ? halves : values
  }
  const values = new Float32Array(rows * heads * headDim)
  const halves = new Uint16Array(values.length)
  const kv = [1, kvHeads, capacity, headDim]
  const zeros = runtime.tensor(type, kv, encoded(new Float32Array(kvHeads * capacity * headDim)))
  const [key, value] = [await device.allocate(type, kv), await device.allocate(type, kv)]
  const host = [
    ['qkv', runtime.tensor(type, [1, rows, (heads + 2 * kvHeads) * headDim], encoded(packedRows(rows)))],
    ['seqlen', runtime.tensor('int32', [1], Int32Array.of(past + rows - 1))],
    ['total', runtime.tensor('int32', [1], Int32Array.of(past + rows))],
  ] as const
  const attended = runtime.tensor(type, [1, rows, heads * headDim], isHalf ? halves : values)
  const session = await runtime.session(attentionGraph(type), { threads: 1 })
  try {
    await device.copy([
      [zeros, key],
      [zeros, value],
    ])
    const results = { attended, present_key: key, present_value: value }
    await session.run(new Map([...host, ['past_key', key], ['past_value', value]]), new Map(Object.entries(results)))
    if (isHalf) decodeHalves(halves, values)
    return values
  } finally {
    await session.release()
    for (const tensor of [zeros, attended, ...host.map(([, each]) => each)]) tensor.release()
    await device.free([key, value])
  }
}

function attentionGraph(type: DeviceMemory['type']): Uint8Array {
  const { heads, kvHeads, headDim } = shape
  const graph = new OnnxGraph()
  const kv = [1, kvHeads, 'capacity', headDim]
  const inputs = [graph.input('qkv', type, [1, 'T', (heads + 2 * kvHeads) * headDim]), '', '']
  inputs.push(graph.input('past_key', type, kv), graph.input('past_value', type, kv))
  inputs.push(graph.input('seqlen', 'int32', [1]), graph.input('total', 'int32', [1]))
  const outputs = ['attended', 'present_key', 'present_value']
  const scale = { float: headDim ** -0.5 }
  const attributes = { num_heads: heads, kv_num_heads: kvHeads, do_rotary: 0, rotary_interleaved: 0, scale }
  graph.node('GroupQueryAttention', inputs, { domain: microsoft, attributes, outputs })
  graph.output('attended', type, [1, 'T', heads * headDim])
  for (const name of outputs.slice(1)) graph.output(name, type, kv)
  return graph.encode('attention')
}

/** The same by definition. Keys and values of the past are zero: each has a score of 0. */
function inThisProcess(rows: number): Float32Array {
  const { heads, kvHeads, headDim, past } = shape
  const width = (heads + 2 * kvHeads) * headDim
  const given = packedRows(rows)
  const out = new Float32Array(rows * heads * headDim)
  for (let row = 0; row < rows; row++)
    for (let head = 0; head < heads; head++) {
      const query = given.subarray(row * width + head * headDim)
      const at = (other: number, part: number) => given.subarray(other * width + (heads + part) * headDim)
      const weights = Array.from({ length: row + 1 }, (_, other) => {
        let score = 0
        for (let i = 0; i < headDim; i++) score += query[i]! * at(other, 0)[i]!
        return Math.exp(score * headDim ** -0.5)
      })
      const sum = weights.reduce((total, weight) => total + weight, past)
      weights.forEach((weight, other) => {
        for (let i = 0; i < headDim; i++) out[(row * heads + head) * headDim + i]! += (weight / sum) * at(other, 1)[i]!
      })
    }
  return out
}

const largestError = (actual: Float32Array, expected: Float32Array) =>
  expected.reduce((most, value, at) => {
    const error = Math.abs(value - actual[at]!)
    return Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(most, error)
  }, 0)
