import { BrimError } from '../../kit/base/errors.ts'
import { decodeHalves, encodeHalves } from '../../kit/base/half.ts'
import type { PartSpec } from './architecture.ts'
import type { FileSink } from './bundle-draft.ts'
import { lossOf, type OnConverted } from './conversions.ts'
import { goldenRows } from './golden.ts'
import { multiplyRows } from './golden-math.ts'
import { dequantizeInt4, quantizeInt4 } from './int4.ts'
import type { Matrix, Vector } from './parameters.ts'
import type { TensorSource } from './tensor-files.ts'
import { quantisedTypes } from './tensor-types.ts'
import { matrixNames, type PartPlan } from './weight-plan.ts'

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
  readonly #sink: FileSink
  readonly #plan: PartPlan
  readonly #spec: PartSpec
  readonly #signal: AbortSignal | undefined
  readonly #onBytes: (bytes: number) => void
  readonly #onConverted: OnConverted
  readonly #values = new Float32Array(chunkValues)
  readonly #stored = new Uint16Array(chunkValues)

  constructor(
    tensors: TensorSource,
    sink: FileSink,
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
  }

  /** Writes float32 values that are not from the checkpoint. */
  async writeTable(name: string, values: Float32Array): Promise<void> {
    await this.#begin(name)
    await this.#write(values)
  }

  async writeVector(vector: Vector): Promise<Float32Array> {
    const values = new Float32Array(vector.length)
    let at = 0
    for (const { tensor, rows: readRows } of vector.sources) {
      await this.#tensors.read(tensor, 0, values.subarray(at, at + readRows))
      at += readRows
    }
    if (!this.#plan.shared.has(vector)) await this.writeTable(vector.name, values)
    return values
  }

  /** Writes a matrix. */
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
  async rows({ sources, columns }: Matrix, indices: readonly number[]): Promise<Float32Array> {
    const [source] = sources
    if (!source) throw new Error('a matrix without a source')
    const values = new Float32Array(indices.length * columns)
    const scales = new Float32Array(columns / this.#spec.format.blockSize)
    for (const [i, index] of indices.entries()) {
      const row = values.subarray(i * columns, (i + 1) * columns)
      await this.#readStored(source.tensor, index * columns, row, scales)
    }
    return values
  }

  async #stream(matrix: Matrix, visit: VisitRows): Promise<void> {
    const names = matrixNames(matrix)
    const { name, blockSize } = this.#spec.format
    const isInt4 = name === 'int4'
    await this.#begin(isInt4 ? names.codes : names.weight)
    const { columns } = matrix
    const scales = new Float32Array(isInt4 ? (matrix.rows * columns) / blockSize : 0)
    const rowsAtOnce = Math.max(1, Math.floor(chunkValues / columns))
    let firstRow = 0
    for (const { tensor, rows } of matrix.sources) {
      for (let row = 0; row < rows; row += rowsAtOnce) {
        this.#signal?.throwIfAborted()
        const values = this.#values.subarray(0, Math.min(rowsAtOnce, rows - row) * columns)
        const blocks = scales.subarray(((firstRow + row) * columns) / blockSize)
        await this.#write(await this.#readStored(tensor, row * columns, values, blocks, true))
        visit(firstRow + row, values)
      }
      firstRow += rows
    }
    if (isInt4) await this.writeTable(names.scales, scales)
  }

  /**
   * Reads values as the bundle stores them: repacked, where the source has the bundle's format, else rounded.
   * @param scales receives the scales of these values (int4)
   * @param reports the loss of a quantised source
   * @returns the stored form, valid until the next call
   */
  async #readStored(tensor: string, from: number, values: Float32Array, scales: Float32Array, reports = false) {
    const { name: to, blockSize } = this.#spec.format
    const packing = this.#tensors.packingOf(tensor)
    const dtype = this.#tensors.find(tensor)?.dtype ?? ''
    if (to === 'int4' && packing?.bits === 4 && packing.blockSize === blockSize && !packing.zeroPoints) {
      const codes = this.#codesOf(values)
      const own = scales.subarray(0, values.length / blockSize)
      await this.#tensors.readPacked(tensor, from, { codes, scales: own })
      dequantizeInt4(codes, own, blockSize, values)
      if (reports) this.#onConverted({ from: dtype, to, values: values.length, error: 0, power: 0 })
      return codes
    }
    await this.#tensors.read(tensor, from, values)
    const original = reports && quantisedTypes.includes(dtype) ? values.slice() : undefined
    const stored = this.#convert(values, tensor, scales)
    if (original) this.#onConverted({ from: dtype, to, values: values.length, ...lossOf(original, values) })
    return stored
  }

  #codesOf(values: Float32Array): Uint8Array {
    return new Uint8Array(this.#stored.buffer, 0, values.length / 2)
  }

  /**
   * Rounds values to the bundle's format in place.
   * @param scales receives the scales of these values (int4)
   * @returns the stored form, valid until the next call
   */
  #convert(values: Float32Array, tensor: string, scales: Float32Array): Float32Array | Uint16Array | Uint8Array {
    switch (this.#spec.format.name) {
      case 'fp32':
        return values
      case 'fp16': {
        const halves = this.#stored.subarray(0, values.length)
        const bad = encodeHalves(values, halves)
        if (bad >= 0)
          throw new BrimError('VALUE_OUT_OF_RANGE', `the tensor ${tensor} holds ${values[bad]}, which fp16 cannot represent`, {
            hint: 'build with --format fp32 or int4',
          })
        decodeHalves(halves, values)
        return halves
      }
      case 'int4': {
        const codes = this.#codesOf(values)
        quantizeInt4(values, this.#spec.format.blockSize, codes, scales)
        return codes
      }
      default:
        return this.#spec.format.name satisfies never
    }
  }

  /** Pads the file up to the weight's planned offset. */
  async #begin(name: string): Promise<void> {
    const entry = this.#plan.weights.find((weight) => weight.name === name)
    if (!entry || entry.file !== this.#plan.file || entry.offset < this.#sink.position)
      throw new Error(`the weight ${name} is written out of order into ${this.#plan.file}`)
    await this.#sink.padTo(entry.offset)
  }

  async #write(values: Float32Array | Uint16Array | Uint8Array): Promise<void> {
    await this.#sink.write(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
    this.#onBytes(values.byteLength)
  }
}
