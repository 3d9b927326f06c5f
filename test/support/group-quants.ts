import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeHalves } from '../../core/kit/base/half.ts'
import { type HeaderEntry, safetensors } from './checkpoint.ts'

type Method = 'AWQ' | 'GPTQ'

interface Packed {
  name: string
  dtype: string
  shape: number[]
  data: Uint8Array
}

/** AWQ has the rows 0, 2, 4, 6, 1, 3, 5, 7 in a word, GPTQ the columns in order. */
function pack(word: readonly number[]): number {
  return word.reduce((packed, code, nibble) => (packed | (code << (4 * nibble))) >>> 0, 0)
}

const interleave = (codes: readonly number[]) => [0, 2, 4, 6, 1, 3, 5, 7].map((at) => codes[at]!)

/**
 * Rounds a matrix to 4 bits with a zero point for each group, and packs it as the published tools do.
 * @returns the tensors, and the values that they stand for
 */
function packMatrix(method: Method, prefix: string, [rows, columns]: [number, number], values: Float32Array, groupSize: number) {
  const groups = columns / groupSize
  const scales = new Float32Array(groups * rows)
  const zeros = Array.from({ length: groups }, () => new Array<number>(rows).fill(0))
  const codes = Array.from({ length: columns }, () => new Array<number>(rows).fill(0))
  for (let row = 0; row < rows; row++)
    for (let group = 0; group < groups; group++) {
      const own = values.subarray(row * columns + group * groupSize, row * columns + (group + 1) * groupSize)
      const low = Math.min(0, ...own)
      const high = Math.max(0, ...own)
      scales[group * rows + row] = (high - low) / 15
      zeros[group]![row] = Math.max(1, Math.round(-low / ((high - low) / 15)))
    }
  const halves = new Uint16Array(scales.length)
  encodeHalves(scales, halves)
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      const group = Math.floor(column / groupSize)
      const code = Math.round(values[row * columns + column]! / scales[group * rows + row]!) + zeros[group]![row]!
      codes[column]![row] = Math.max(0, Math.min(15, code))
    }
  const words: number[] = []
  if (method === 'AWQ')
    for (const column of codes) for (let row = 0; row < rows; row += 8) words.push(pack(interleave(column.slice(row, row + 8))))
  else
    for (let column = 0; column < columns; column += 8)
      for (let row = 0; row < rows; row++) words.push(pack(codes.slice(column, column + 8).map((of) => of[row]!)))
  const zeroWords: number[] = []
  for (const group of zeros)
    for (let row = 0; row < rows; row += 8) {
      const own = group.slice(row, row + 8)
      zeroWords.push(pack(method === 'AWQ' ? interleave(own) : own.map((zero) => zero - 1)))
    }
  const bytes = (numbers: number[]) => new Uint8Array(Uint32Array.from(numbers).buffer)
  const packed: Packed[] = [
    {
      name: `${prefix}.qweight`,
      dtype: 'I32',
      shape: method === 'AWQ' ? [columns, rows / 8] : [columns / 8, rows],
      data: bytes(words),
    },
    { name: `${prefix}.qzeros`, dtype: 'I32', shape: [groups, rows / 8], data: bytes(zeroWords) },
    { name: `${prefix}.scales`, dtype: 'F16', shape: [groups, rows], data: new Uint8Array(halves.buffer) },
  ]
  if (method === 'GPTQ') {
    const order = Int32Array.from({ length: columns }, (_, column) => Math.floor(column / groupSize))
    packed.push({ name: `${prefix}.g_idx`, dtype: 'I32', shape: [columns], data: new Uint8Array(order.buffer) })
  }
  return packed
}

/** Replaces the matrices of all layers of an F32 checkpoint by packed ones; embedding, head and norms stay. */
export function quantiseCheckpoint(folder: string, method: Method, groupSize: number): void {
  const path = join(folder, 'model.safetensors')
  const bytes = readFileSync(path)
  const end = 8 + Number(bytes.readBigUInt64LE(0))
  const header: Record<string, HeaderEntry> = JSON.parse(bytes.toString('utf8', 8, end))
  const tensors: Packed[] = []
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    if (name === '__metadata__') continue
    const data = Uint8Array.from(bytes.subarray(end).subarray(...data_offsets))
    if (!/_proj\.weight$/.test(name)) tensors.push({ name, dtype, shape, data })
    else
      tensors.push(...packMatrix(method, name.slice(0, -7), shape as [number, number], new Float32Array(data.buffer), groupSize))
  }
  writePacked(path, tensors)
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))
  const common = { bits: 4, group_size: groupSize }
  config.quantization_config =
    method === 'AWQ'
      ? { quant_method: 'awq', version: 'gemm', zero_point: true, ...common }
      : { quant_method: 'gptq', desc_act: false, sym: false, ...common }
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config))
}

export function writePacked(path: string, tensors: readonly Packed[]): void {
  let at = 0
  const entries = tensors.map(({ name, dtype, shape, data }) => {
    at += data.length
    return [name, { dtype, shape, data_offsets: [at - data.length, at] }]
  })
  writeFileSync(path, safetensors(JSON.stringify(Object.fromEntries(entries)), Buffer.concat(tensors.map(({ data }) => data))))
}
