import { readFileSync } from 'node:fs'
import type { States } from '../../core/wire/protocol/states.ts'

/**
 * Drafters in plain fp64 arithmetic, formula by formula from the papers and the safetensors file. Shares no code with the
 * implementation that it checks.
 */

export type Row = readonly number[]

/** Reads F32 and F16 tensors of a safetensors file; matrices as rows, vectors as one row. */
export function readTensors(path: string): (name: string) => Row[] {
  const bytes = readFileSync(path)
  const start = 8 + Number(bytes.readBigUInt64LE(0))
  const header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }> = JSON.parse(
    bytes.toString('utf8', 8, start),
  )
  return (name) => {
    const entry = header[name]
    if (!entry) throw new Error(`no tensor ${name} in ${path}`)
    const size = entry.dtype === 'F32' ? 4 : 2
    const columns = entry.shape.at(-1) ?? 1
    const value = (i: number) => {
      const at = start + entry.data_offsets[0] + i * size
      return size === 4 ? bytes.readFloatLE(at) : halfValue(bytes.readUInt16LE(at))
    }
    const rows = entry.shape.length > 1 ? entry.shape[0]! : 1
    return Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, i) => value(row * columns + i)))
  }
}

/** The rows as a graph reads them: wide ones in fp32, the others from their halves. */
export function rowsOf({ rows, width, half, wide }: States): Row[] {
  return Array.from({ length: rows }, (_, row) => {
    const at = wide ? wide.index.indexOf(row) : -1
    if (wide && at >= 0) return [...wide.values.subarray(at * width, (at + 1) * width)]
    return [...half.subarray(row * width, (row + 1) * width)].map(halfValue)
  })
}

/** IEEE binary16, finite. */
export function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 31
  const fraction = (bits & 1023) / 1024
  return sign * (exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15))
}

export const dot = (a: Row, b: Row): number => a.reduce((sum, value, i) => sum + value * b[i]!, 0)

export const plus = (a: Row, b: Row): number[] => a.map((value, i) => value + b[i]!)

/** W·x, W as [out, in]. */
export const times = (matrix: readonly Row[], x: Row): number[] => matrix.map((row) => dot(row, x))

export function rmsNorm(x: Row, weight: Row, epsilon: number): number[] {
  const scale = 1 / Math.sqrt(dot(x, x) / x.length + epsilon)
  return x.map((value, i) => value * scale * weight[i]!)
}

/** Halves of one head turned against each other by position · theta^(−2i/d) (Su et al., arXiv:2104.09864). */
function turn(head: Row, position: number, theta: number): number[] {
  const half = head.length / 2
  return head.map((value, i) => {
    const angle = position * theta ** (-(2 * (i % half)) / head.length)
    const other = i < half ? -head[i + half]! : head[i - half]!
    return value * Math.cos(angle) + other * Math.sin(angle)
  })
}

export interface AdapterShape {
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  readonly theta: number
  readonly epsilon: number
}

/** s + o_proj(attention(RMSNorm(s) + W_f·RMSNorm(f))), row 0 at position 0; without features, without the second term. */
export function adapterRows(
  tensor: (name: string) => Row[],
  { heads, kvHeads, headDim, theta, epsilon }: AdapterShape,
  shallow: readonly Row[],
  features?: readonly Row[],
): number[][] {
  const inputs = shallow.map((row, at) => {
    const own = rmsNorm(row, tensor('norm.weight')[0]!, epsilon)
    if (!features) return own
    const known = rmsNorm(features[at]!, tensor('feature_norm.weight')[0]!, epsilon)
    return plus(own, times(tensor('feature_proj.weight'), known))
  })
  const project = (name: string) => {
    const weight = tensor(`${name}_proj.weight`)
    return inputs.map((x) => times(weight, x))
  }
  const headOf = (row: Row, head: number) => row.slice(head * headDim, (head + 1) * headDim)
  const [q, k, v] = [project('q'), project('k'), project('v')]
  const output = tensor('o_proj.weight')
  return shallow.map((row, at) => {
    const mixed = Array.from({ length: heads }, (_, head) => {
      const shared = Math.floor(head / (heads / kvHeads))
      const query = turn(headOf(q[at]!, head), at, theta)
      const powers = k
        .slice(0, at + 1)
        .map((key, past) => Math.exp(dot(query, turn(headOf(key, shared), past, theta)) / Math.sqrt(headDim)))
      const sum = powers.reduce((a, b) => a + b, 0)
      return Array.from({ length: headDim }, (_, i) =>
        powers.reduce((total, power, past) => total + (power / sum) * v[past]![shared * headDim + i]!, 0),
      )
    })
    return plus(row, times(output, mixed.flat()))
  })
}

/** Head k of Medusa: the LLM's head over f + SiLU(W_k·f + b_k), f the deep row after the final normalisation. */
export function medusaLogits(
  tensor: (name: string) => Row[],
  llm: { readonly norm: Row; readonly head: readonly Row[]; readonly epsilon: number },
  heads: number,
  deep: Row,
): number[][] {
  const f = rmsNorm(deep, llm.norm, llm.epsilon)
  return Array.from({ length: heads }, (_, k) => {
    const z = plus(times(tensor(`blocks.${k}.weight`), f), tensor(`blocks.${k}.bias`)[0]!)
    const h = plus(
      f,
      z.map((value) => value / (1 + Math.exp(-value))),
    )
    return times(llm.head, h)
  })
}
