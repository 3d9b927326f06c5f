import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { type Int4BlockSize, int4BlockSizes } from './architecture.ts'

/** How AWQ or GPTQ has packed the matrices of a checkpoint: 4 bits, a scale and a zero point for each group of a row. */
export interface GroupQuantisation {
  readonly method: 'AWQ' | 'GPTQ'
  readonly groupSize: Int4BlockSize
  /** GPTQ's first format stores each zero point less one. */
  readonly zerosLessOne: boolean
}

const Config = z.looseObject({
  quant_method: z.string(),
  bits: z.int().optional(),
  group_size: z.int().optional(),
  zero_point: z.boolean().default(true),
  version: z.string().default('gemm'),
  checkpoint_format: z.string().default('gptq'),
})

/**
 * @param config `quantization_config` of config.json
 * @throws BrimError CHECKPOINT_INVALID, QUANTISATION_UNSUPPORTED
 */
export function readQuantisation(config: unknown): GroupQuantisation {
  const parsed = Config.safeParse(config)
  if (!parsed.success)
    throw new BrimError(
      'CHECKPOINT_INVALID',
      `config.json: quantization_config cannot be read: ${z.prettifyError(parsed.error)}`,
      {
        hint: 'compare it with the config.json of the published model',
      },
    )
  const { quant_method: method, bits, group_size: size, zero_point, version, checkpoint_format: format } = parsed.data
  if (method !== 'awq' && method !== 'gptq') throw unsupported('quant_method', method)
  if (bits !== 4) throw unsupported('bits', bits ?? 'missing')
  const groupSize = int4BlockSizes.find((known) => known === size)
  if (groupSize === undefined) throw unsupported('group_size', size ?? 'missing')
  if (method === 'gptq') {
    if (format !== 'gptq' && format !== 'gptq_v2') throw unsupported('checkpoint_format', format)
    return { method: 'GPTQ', groupSize, zerosLessOne: format === 'gptq' }
  }
  if (version.toLowerCase() !== 'gemm') throw unsupported('version', version)
  if (!zero_point) throw unsupported('zero_point', false)
  return { method: 'AWQ', groupSize, zerosLessOne: false }
}

function unsupported(field: string, value: string | number | boolean): BrimError {
  return new BrimError('QUANTISATION_UNSUPPORTED', `config.json: Brim does not read quantization_config with ${field} ${value}`, {
    hint: 'take AWQ (version gemm, zero points) or GPTQ in 4 bits with groups of 32, 64 or 128; or GGUF; or the original weights',
  })
}

/** One matrix as MatMulNBits reads it. */
export interface GroupedMatrix {
  /** [rows, columns / 2] two codes a byte, the even column in the low bits. */
  readonly codes: Uint8Array
  /** [rows, groups] */
  readonly scales: Float32Array
  /** [rows, groups] 0 to 15 */
  readonly zeroPoints: Uint8Array
}

interface StoredGroups {
  readonly rows: number
  readonly columns: number
  readonly weights: Int32Array
  readonly zeros: Int32Array
  /** [groups, rows] */
  readonly scales: Float32Array
}

/** The row of each nibble of a word of AWQ's, from the lowest: its kernel unpacks even rows first. */
const awqOrder = [0, 2, 4, 6, 1, 3, 5, 7]
const inOrder = [0, 1, 2, 3, 4, 5, 6, 7]

/**
 * Transposes a matrix, which is stored by columns of the layer's input.
 * AWQ: weights [columns, rows / 8], zeros [groups, rows / 8]. GPTQ: weights [columns / 8, rows], zeros [groups, rows / 8].
 * @throws RangeError if a zero point is 16
 */
export function transposeGroups({ method, groupSize, zerosLessOne }: GroupQuantisation, stored: StoredGroups): GroupedMatrix {
  const { rows, columns } = stored
  const groups = columns / groupSize
  const codes = method === 'AWQ' ? awqCodes(stored) : gptqCodes(stored)
  const scales = new Float32Array(rows * groups)
  const zeroPoints = new Uint8Array(rows * groups)
  const order = method === 'AWQ' ? awqOrder : inOrder
  for (let group = 0; group < groups; group++)
    for (let word = 0; word < rows / 8; word++) {
      const packed = stored.zeros[(group * rows) / 8 + word]!
      for (const [nibble, row] of order.entries()) {
        const at = (word * 8 + row) * groups + group
        zeroPoints[at] = ((packed >>> (4 * nibble)) & 15) + (zerosLessOne ? 1 : 0)
        scales[at] = stored.scales[group * rows + word * 8 + row]!
      }
    }
  if (zeroPoints.includes(16)) throw new RangeError('a zero point is 16')
  return { codes, scales, zeroPoints }
}

function awqCodes({ rows, columns, weights }: StoredGroups): Uint8Array {
  const codes = new Uint8Array((rows * columns) / 2)
  for (let column = 0; column < columns; column++) {
    const shift = (column & 1) * 4
    for (let word = 0; word < rows / 8; word++) {
      const packed = weights[(column * rows) / 8 + word]!
      for (let nibble = 0; nibble < 8; nibble++) {
        const at = ((word * 8 + awqOrder[nibble]!) * columns + column) >>> 1
        codes[at] = codes[at]! | (((packed >>> (4 * nibble)) & 15) << shift)
      }
    }
  }
  return codes
}

/** A word has eight neighbours of one row, the first in the low bits: four bytes as they are. */
function gptqCodes({ rows, columns, weights }: StoredGroups): Uint8Array {
  const words = new Int32Array((rows * columns) / 8)
  const perRow = columns / 8
  for (let word = 0; word < perRow; word++)
    for (let row = 0; row < rows; row++) words[row * perRow + word] = weights[word * rows + row]!
  return new Uint8Array(words.buffer)
}
