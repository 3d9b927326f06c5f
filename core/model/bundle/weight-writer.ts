import { BrimError } from '../../kit/base/errors.ts'
import { decodeHalves, encodeHalves } from '../../kit/base/half.ts'
import type { PartSpec, WeightFormat } from './architecture.ts'
import {
  type CodeFormat,
  canRepack,
  codeBytes,
  codeFormat,
  packZeroPoints,
  quantizeBlocks,
  repackBlocks,
  type StoredBlocks,
} from './block-codes.ts'
import type { FileSink } from './bundle-draft.ts'
import { lossOf, type OnConverted } from './conversions.ts'
import { goldenRows } from './golden.ts'
import { multiplyRows } from './golden-math.ts'
import { listParameters, type Matrix, type Vector } from './parameters.ts'
import type { TensorSource } from './tensor-files.ts'
import { type BlockPacking, type PackedValues, quantisedTypes } from './tensor-types.ts'
import { matrixFormat, matrixNames, type PartPlan } from './weight-plan.ts'

/** Values that are converted in one piece (8 MiB as fp32). */
const chunkValues = 2 << 20

type VisitRows = (firstRow: number, values: Float32Array) => void

/**
 * Converts the weights of one part from the checkpoint into the bundle, piece by piece. Callers receive each weight as the
 * bundle stores it (rounded or dequantised) and compute the golden vectors from it. Shared weights are read but not
 * written again.
 */
export class WeightWriter {
  readonly #tensors: TensorSource
  readonly #sink: FileSink | undefined
  readonly #plan: PartPlan
  readonly #spec: PartSpec
  readonly #signal: AbortSignal | undefined
  readonly #onBytes: (bytes: number) => void
  readonly #onConverted: OnConverted
  readonly #values: Float32Array
  readonly #stored: Uint16Array

  /** @param sink undefined for a part whose weights are all shared */
  constructor(
    tensors: TensorSource,
    sink: FileSink | undefined,
    plan: PartPlan,
    options: { signal: AbortSignal | undefined; onBytes: (bytes: number) => void; onConverted: OnConverted },
  ) {
    this.#tensors = tensors
    this.#sink = sink
    this.#plan = plan
    this.#spec = plan.spec
    this.#signal = options.signal
    this.#onBytes = options.onBytes
    this.#onConverted = options.onConverted
    // Of a small model, whole pieces would take longer to allocate than its weights to convert.
    const sizes = listParameters(plan.parameters).map((each) => ('rows' in each ? each.rows * each.columns : 0))
    const largest = Math.max(0, ...sizes)
    this.#values = new Float32Array(Math.min(chunkValues, largest))
    this.#stored = new Uint16Array(this.#values.length)
  }

  /** Writes float32 values that are not from the checkpoint. */
  async writeTable(name: string, values: Float32Array): Promise<void> {
    await this.#begin(name)
    await this.#write(values)
  }

  async writeVector(vector: Vector): Promise<Float32Array> {
    const values = new Float32Array(vector.length)
    let at = 0
    for (const { tensor, rows: readRows, within } of vector.sources) {
      await this.#tensors.read(tensor, within?.from ?? 0, values.subarray(at, at + readRows))
      at += readRows
    }
    const { plus = 0 } = vector
    if (plus !== 0) for (let i = 0; i < values.length; i++) values[i] = values[i]! + plus
    if (vector.negativeExponential) for (let i = 0; i < values.length; i++) values[i] = -Math.exp(values[i]!)
    if (!this.#plan.shared.has(vector)) await this.writeTable(vector.name, values)
    return values
  }

  async writeMatrix(matrix: Matrix): Promise<void> {
    if (!this.#plan.shared.has(matrix)) await this.#stream(matrix, () => {})
  }

  /** Writes a matrix and multiplies by it. @param x [goldenRows, columns]. @returns [goldenRows, rows] */
  async multiply(matrix: Matrix, x: Float32Array): Promise<Float32Array> {
    const out = new Float32Array(goldenRows * matrix.rows)
    await this.#stream(matrix, (firstRow, values) => multiplyRows(x, values, matrix.columns, out, firstRow))
    return out
  }

  /** Reads rows of a matrix with one source, as the bundle stores them. @returns [indices.length, columns] */
  async rows(matrix: Matrix, indices: readonly number[]): Promise<Float32Array> {
    const { sources, columns } = matrix
    const [source] = sources
    if (!source) throw new Error('a matrix without a source')
    const format = matrixFormat(this.#spec, matrix)
    const values = new Float32Array(indices.length * columns)
    const blocks = blocksOf(1, columns, format)
    for (const [i, index] of indices.entries())
      await this.#readStored(source.tensor, index * columns, values.subarray(i * columns, (i + 1) * columns), format, blocks)
    return values
  }

  async #stream(matrix: Matrix, visit: VisitRows): Promise<void> {
    const names = matrixNames(matrix)
    const format = matrixFormat(this.#spec, matrix)
    const coded = codeFormat(format)
    await this.#begin(coded ? names.codes : names.weight)
    const { columns } = matrix
    const blocks = blocksOf(matrix.rows, columns, format)
    const rowBlocks = coded ? columns / coded.blockSize : 0
    const rowsAtOnce = Math.max(1, Math.floor(chunkValues / columns))
    let firstRow = 0
    for (const { tensor, rows, within } of matrix.sources) {
      const first = within?.from ?? 0
      for (let row = 0; row < rows; row += rowsAtOnce) {
        this.#signal?.throwIfAborted()
        const values = this.#values.subarray(0, Math.min(rowsAtOnce, rows - row) * columns)
        const own = slice(blocks, (firstRow + row) * rowBlocks, (values.length / columns) * rowBlocks)
        await this.#write(await this.#readStored(tensor, (first + row) * columns, values, format, own, true))
        visit(firstRow + row, values)
      }
      firstRow += rows
    }
    if (!coded) return
    await this.writeTable(names.scales, blocks.scales)
    if (!blocks.zeroPoints) return
    await this.#begin(names.zeroPoints)
    await this.#write(packZeroPoints(blocks.zeroPoints, matrix.rows, coded))
  }

  /**
   * Reads values as the bundle stores them: repacked, where each has its value in the bundle's format, else rounded.
   * @param blocks receives scales and zero points of these values
   * @param reports the loss of a quantised source
   * @returns the stored form, valid until the next call
   */
  async #readStored(
    tensor: string,
    from: number,
    values: Float32Array,
    format: WeightFormat,
    blocks: BlockFactors,
    reports = false,
  ): Promise<Float32Array | Uint16Array | Uint8Array> {
    const dtype = this.#tensors.find(tensor)?.dtype ?? ''
    const isQuantised = reports && quantisedTypes.includes(dtype)
    const report = (loss: { error: number; power: number }) =>
      this.#onConverted({ from: dtype, to: format.name, values: values.length, ...loss })
    const packing = this.#tensors.packingOf(tensor)
    const coded = codeFormat(format)
    if (coded && canRepack(packing, coded)) {
      const packed = packedValues(values.length, packing)
      await this.#tensors.readPacked(tensor, from, packed)
      const codes = this.#codesOf(values, coded)
      repackBlocks(packing, packed, coded, { codes, ...blocks }, values)
      if (isQuantised) report({ error: 0, power: 0 })
      return codes
    }
    await this.#tensors.read(tensor, from, values)
    const original = isQuantised ? values.slice() : undefined
    const stored = this.#convert(values, tensor, format, blocks)
    if (original) report(lossOf(original, values))
    return stored
  }

  #codesOf(values: Float32Array, format: CodeFormat): Uint8Array {
    return new Uint8Array(this.#stored.buffer, 0, codeBytes(values.length, format))
  }

  /**
   * Rounds values to the bundle's format in place.
   * @param blocks receives scales and zero points of these values
   * @returns the stored form, valid until the next call
   */
  #convert(
    values: Float32Array,
    tensor: string,
    format: WeightFormat,
    blocks: BlockFactors,
  ): Float32Array | Uint16Array | Uint8Array {
    const coded = codeFormat(format)
    if (coded) {
      const codes = this.#codesOf(values, coded)
      quantizeBlocks(values, coded, { codes, ...blocks })
      return codes
    }
    if (format.name === 'fp32') return values
    const halves = this.#stored.subarray(0, values.length)
    const bad = encodeHalves(values, halves)
    if (bad >= 0)
      throw new BrimError('VALUE_OUT_OF_RANGE', `the tensor ${tensor} holds ${values[bad]}, which fp16 cannot represent`, {
        hint: 'build with --format fp32 or int4',
      })
    decodeHalves(halves, values)
    return halves
  }

  /** Pads the file up to the weight's planned offset. */
  async #begin(name: string): Promise<void> {
    const entry = this.#plan.weights.find((weight) => weight.name === name)
    const sink = this.#sink
    if (!sink || !entry || entry.file !== this.#plan.file || entry.offset < sink.position)
      throw new Error(`the weight ${name} is written out of order into ${this.#plan.file}`)
    await sink.padTo(entry.offset)
  }

  async #write(values: Float32Array | Uint16Array | Uint8Array): Promise<void> {
    await this.#sink?.write(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
    this.#onBytes(values.byteLength)
  }
}

/** Scales and zero points of some blocks; none in a format without blocks. */
type BlockFactors = Pick<StoredBlocks, 'scales' | 'zeroPoints'>

function blocksOf(rows: number, columns: number, format: WeightFormat): BlockFactors {
  const coded = codeFormat(format)
  const count = coded ? (rows * columns) / coded.blockSize : 0
  return { scales: new Float32Array(count), zeroPoints: coded?.zeroPoints ? new Uint8Array(count) : undefined }
}

function slice({ scales, zeroPoints }: BlockFactors, from: number, count: number): BlockFactors {
  return { scales: scales.subarray(from, from + count), zeroPoints: zeroPoints?.subarray(from, from + count) }
}

function packedValues(values: number, { blockSize, zeroPoints }: BlockPacking): PackedValues {
  const blocks = values / blockSize
  const packed = { codes: new Uint8Array(values), scales: new Float32Array(blocks) }
  return zeroPoints ? { ...packed, zeroPoints: new Uint8Array(blocks) } : packed
}
