import { BrimError } from '../../kit/base/errors.ts'
import { type GroupedMatrix, type GroupQuantisation, transposeGroups } from './group-quants.ts'
import type { TensorInfo } from './safetensors.ts'
import type { CheckpointTensors, TensorFiles } from './tensor-files.ts'
import type { BlockPacking, PackedValues } from './tensor-types.ts'

interface GroupTensors {
  /** The matrix, [rows, columns]. */
  readonly info: TensorInfo
  readonly weights: TensorInfo
  readonly zeros: TensorInfo
  readonly scales: TensorInfo
}

/**
 * The tensors of an AWQ or GPTQ checkpoint: `x.qweight`, `x.qzeros` and `x.scales` are one matrix `x.weight`. One matrix is in
 * memory at a time, because its rows are stored across the file.
 */
export class QuantisedTensors implements CheckpointTensors {
  readonly name: string
  readonly #files: TensorFiles
  readonly #form: GroupQuantisation
  readonly #matrices = new Map<string, GroupTensors>()
  #others: readonly TensorInfo[]
  #loaded: { readonly name: string; readonly matrix: GroupedMatrix } | undefined

  /** @throws BrimError TENSOR_MISSING, TENSOR_MISMATCH, QUANTISATION_UNSUPPORTED */
  static async open(files: TensorFiles, form: GroupQuantisation): Promise<QuantisedTensors> {
    const tensors = new QuantisedTensors(files, form)
    for (const { name } of files.tensors) if (name.endsWith('.g_idx')) await tensors.#checkOrder(name)
    for (const name of tensors.#matrices.keys()) await tensors.#dropZeros(name.replace(/weight$/, 'bias'))
    return tensors
  }

  private constructor(files: TensorFiles, form: GroupQuantisation) {
    this.#files = files
    this.#form = form
    this.name = files.name
    const parts = new Set<string>()
    for (const weights of files.tensors.filter(({ name }) => name.endsWith('.qweight'))) {
      const prefix = weights.name.slice(0, -'.qweight'.length)
      for (const part of ['qweight', 'qzeros', 'scales', 'g_idx']) parts.add(`${prefix}.${part}`)
      this.#matrices.set(`${prefix}.weight`, this.#matrixOf(prefix, weights))
    }
    this.#others = files.tensors.filter(({ name }) => !parts.has(name))
  }

  get tensors(): TensorInfo[] {
    return [...[...this.#matrices.values()].map(({ info }) => info), ...this.#others]
  }

  find(name: string): TensorInfo | undefined {
    return this.#matrices.get(name)?.info ?? this.#files.find(name)
  }

  async read(name: string, from: number, into: Float32Array): Promise<void> {
    if (!this.#matrices.has(name)) return this.#files.read(name, from, into)
    const { groupSize } = this.#form
    const { codes, scales, zeroPoints } = await this.#load(name)
    for (let i = 0; i < into.length; i++) {
      const at = from + i
      const group = Math.floor(at / groupSize)
      const code = (codes[at >>> 1]! >>> ((at & 1) * 4)) & 15
      into[i] = (code - zeroPoints[group]!) * scales[group]!
    }
  }

  packingOf(name: string): BlockPacking | undefined {
    if (!this.#matrices.has(name)) return this.#files.packingOf(name)
    return { bits: 4, blockSize: this.#form.groupSize, zeroPoints: true }
  }

  async readPacked(name: string, from: number, into: PackedValues): Promise<void> {
    if (!this.#matrices.has(name)) return this.#files.readPacked(name, from, into)
    const { codes, scales, zeroPoints } = await this.#load(name)
    const group = from / this.#form.groupSize
    for (let i = 0; i < into.codes.length; i++) into.codes[i] = (codes[(from + i) >>> 1]! >>> (((from + i) & 1) * 4)) & 15
    into.scales.set(scales.subarray(group, group + into.scales.length))
    into.zeroPoints?.set(zeroPoints.subarray(group, group + into.scales.length))
  }

  /** A quantised head is never the embedding's copy. */
  async areEqual(first: string, second: string): Promise<boolean> {
    return !(this.#matrices.has(first) || this.#matrices.has(second)) && this.#files.areEqual(first, second)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#files[Symbol.asyncDispose]()
  }

  #matrixOf(prefix: string, weights: TensorInfo): GroupTensors {
    const { method, groupSize } = this.#form
    const [first = 0, second = 0] = weights.shape
    const [rows, columns] = method === 'AWQ' ? [second * 8, first] : [second, first * 8]
    if (weights.dtype !== 'I32' || weights.shape.length !== 2)
      throw mismatch(weights, `${weights.dtype} [${weights.shape.join(', ')}], not a matrix of I32`)
    if (columns % groupSize !== 0)
      throw new BrimError(
        'QUANTISATION_UNSUPPORTED',
        `${weights.file}: ${weights.name} has ${columns} inputs, which are no multiple of group_size ${groupSize} of config.json`,
        { hint: 'config.json and the weights belong to different models: copy or download both again' },
      )
    const groups = columns / groupSize
    const zeros = this.#part(`${prefix}.qzeros`, ['I32'], [groups, rows / 8])
    const scales = this.#part(`${prefix}.scales`, ['F16', 'BF16', 'F32'], [groups, rows])
    const info = { ...weights, name: `${prefix}.weight`, dtype: method, shape: [rows, columns] }
    return { info, weights, zeros, scales }
  }

  #part(name: string, dtypes: readonly string[], shape: readonly number[]): TensorInfo {
    const info = this.#files.find(name)
    if (!info)
      throw new BrimError('TENSOR_MISSING', `the tensor ${name} is not in ${this.name}`, {
        hint: 'check that the checkpoint is complete: each qweight has qzeros and scales',
      })
    if (dtypes.includes(info.dtype) && info.shape.join() === shape.join()) return info
    const wanted = `${dtypes.join(' or ')} [${shape.join(', ')}]`
    throw mismatch(info, `${info.dtype} [${info.shape.join(', ')}], but its qweight and group_size require ${wanted}`)
  }

  /** GPTQ may quantise the inputs in an order of importance (desc_act): a group's inputs are no neighbours then. */
  async #checkOrder(name: string): Promise<void> {
    const groups = await this.#words(this.#files.find(name)!)
    if (groups.every((group, input) => group === Math.floor(input / this.#form.groupSize))) return
    throw new BrimError(
      'QUANTISATION_UNSUPPORTED',
      `${this.name}: ${name} has groups of inputs that are no neighbours (desc_act)`,
      {
        hint: 'take a GPTQ checkpoint with desc_act false, AWQ or GGUF',
      },
    )
  }

  /** Early GPTQ tools give each matrix a bias of zeros, also where the architecture has none. */
  async #dropZeros(name: string): Promise<void> {
    const info = this.#files.find(name)
    if (!info) return
    const values = new Float32Array(info.shape[0] ?? 0)
    await this.#files.read(name, 0, values)
    if (values.every((value) => value === 0)) this.#others = this.#others.filter((other) => other !== info)
  }

  async #load(name: string): Promise<GroupedMatrix> {
    if (this.#loaded?.name === name) return this.#loaded.matrix
    const { info, weights, zeros, scales } = this.#matrices.get(name)!
    const [rows = 0, columns = 0] = info.shape
    const scaleValues = new Float32Array(scales.shape.reduce((product, dim) => product * dim, 1))
    await this.#files.read(scales.name, 0, scaleValues)
    const stored = { rows, columns, weights: await this.#words(weights), zeros: await this.#words(zeros), scales: scaleValues }
    try {
      this.#loaded = { name, matrix: transposeGroups(this.#form, stored) }
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause
      throw new BrimError('QUANTISATION_UNSUPPORTED', `${info.file}: ${zeros.name} has a zero point of 16, beyond 4 bits`, {
        hint: 'take a checkpoint with symmetric groups (sym true), AWQ or GGUF',
      })
    }
    return this.#loaded.matrix
  }

  async #words(info: TensorInfo): Promise<Int32Array> {
    if (info.dtype !== 'I32') throw mismatch(info, `${info.dtype}, not I32`)
    return new Int32Array(await this.#files.readBytes(info.name))
  }
}

function mismatch({ file, name }: TensorInfo, is: string): BrimError {
  return new BrimError('TENSOR_MISMATCH', `${file}: the tensor ${name} is ${is}`, {
    hint: 'config.json and the weights belong to different models: copy or download both again',
  })
}
