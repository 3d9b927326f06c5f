import { type FileHandle, mkdir, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeHalves } from '../core/kit/base/half.ts'
import { adapterConfigFile, adapterWeightsFile } from '../core/model/bundle/adapter-files.ts'
import type { Medusa, PartSpec } from '../core/model/bundle/architecture.ts'
import { readArchitecture } from '../core/model/bundle/families/index.ts'
import { medusaConfigFile, medusaWeightsFile } from '../core/model/bundle/medusa-files.ts'
import { listParameters, type Matrix, partParameters, type Vector } from '../core/model/bundle/parameters.ts'

export type CheckpointType = 'F32' | 'F16' | 'BF16'

export interface RandomAdapter {
  readonly split: number
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  /** It also reads the deep state before each row. Default: false. */
  readonly features?: boolean
}

export interface RandomCheckpointOptions {
  /** What config.json holds. */
  readonly config: Readonly<Record<string, unknown>>
  readonly dtype: CheckpointType
  readonly seed: number
  readonly adapter?: RandomAdapter
  readonly adapterPaper?: Omit<RandomAdapter, 'features'>
  readonly medusa?: Medusa
}

/** config.json of a small model with every feature of its family. */
export const tinyLlamaConfig = {
  architectures: ['LlamaForCausalLM'],
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  vocab_size: 160,
  max_position_embeddings: 256,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  bos_token_id: 1,
  eos_token_id: 2,
} as const

export const tinyQwen2Config = {
  ...tinyLlamaConfig,
  architectures: ['Qwen2ForCausalLM'],
  tie_word_embeddings: true,
  rope_theta: 1_000_000,
} as const

/** The shape of Qwen2.5-0.5B. */
export const qwen05bConfig = {
  architectures: ['Qwen2ForCausalLM'],
  hidden_size: 896,
  intermediate_size: 4864,
  num_hidden_layers: 24,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  vocab_size: 151_936,
  max_position_embeddings: 32_768,
  rms_norm_eps: 1e-6,
  rope_theta: 1_000_000,
  tie_word_embeddings: true,
  bos_token_id: 151_643,
  eos_token_id: 151_645,
} as const

/**
 * Writes a Hugging Face directory of random weights: for tests and benchmarks of shapes whose real weights are
 * elsewhere. Same options, same bytes. Matrices are uniform with variance 1 / columns, norms lie around 1.
 */
export async function writeRandomCheckpoint(folder: string, options: RandomCheckpointOptions): Promise<void> {
  const model = readArchitecture(options.config)
  const { layers } = model.dims
  const format = { name: 'fp32', accuracyLevel: 4, blockSize: 32, zeroPoints: false } as const
  const parameters = listParameters(partParameters({ part: 'whole', model, format, layers: [0, layers] }))
  const own = model.tiedEmbeddings ? parameters.filter(({ name }) => name !== 'head') : parameters
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'config.json'), `${JSON.stringify(options.config, null, 2)}\n`)
  await writeTensors(join(folder, 'model.safetensors'), own, options.dtype, options.seed)
  const base = { model, format, layers: [0, 1] } as const
  const { adapter, adapterPaper, medusa, seed } = options
  if (adapter) await writeAdapter(join(folder, 'adapter'), { part: 'adapter', ...base }, adapter, seed + 1)
  if (adapterPaper) await writeAdapter(join(folder, 'adapter-paper'), { part: 'adapter-paper', ...base }, adapterPaper, seed + 2)
  if (medusa) await writeMedusa(join(folder, 'medusa'), { part: 'medusa', ...base }, medusa, seed + 3)
}

async function writeAdapter(folder: string, base: PartSpec, shape: RandomAdapter, seed: number): Promise<void> {
  const { hidden } = base.model.dims
  const { epsilon, ropes } = base.model
  const rope = ropes.global
  const features = shape.features ?? false
  const parameters = listParameters(partParameters({ ...base, adapter: { ...shape, features, hidden, epsilon, rope } }))
  const config = {
    kind: 'hat-adapter',
    split: shape.split,
    features,
    hidden_size: hidden,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.kvHeads,
    head_dim: shape.headDim,
    rope_theta: rope.theta,
    rms_norm_eps: epsilon,
  }
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, adapterConfigFile), `${JSON.stringify(config, null, 2)}\n`)
  await writeTensors(join(folder, adapterWeightsFile), parameters, 'F16', seed)
}

async function writeMedusa(folder: string, base: PartSpec, medusa: Medusa, seed: number): Promise<void> {
  const { medusa: blocks } = partParameters({ ...base, medusa })
  if (!blocks) throw new Error('heads without blocks')
  const config = { kind: 'medusa', heads: medusa.heads, hidden_size: base.model.dims.hidden, tree: medusa.tree }
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, medusaConfigFile), `${JSON.stringify(config, null, 2)}\n`)
  await writeTensors(join(folder, medusaWeightsFile), [blocks.weight, blocks.bias], 'F16', seed)
}

interface Tensor {
  readonly name: string
  readonly shape: readonly number[]
  /** Values lie within center ± spread. */
  readonly center: number
  readonly spread: number
}

async function writeTensors(
  path: string,
  parameters: readonly (Matrix | Vector)[],
  dtype: CheckpointType,
  seed: number,
): Promise<void> {
  const tensors = parameters.flatMap(toTensors)
  const size = dtype === 'F32' ? 4 : 2
  let end = 0
  const entries = tensors.map(({ name, shape }) => {
    const begin = end
    end += shape.reduce((product, dim) => product * dim, size)
    return [name, { dtype, shape, data_offsets: [begin, end] }] as const
  })
  const header = JSON.stringify({ __metadata__: { format: 'pt' }, ...Object.fromEntries(entries) })
  const json = Buffer.from(header.padEnd(Math.ceil(header.length / 8) * 8))
  const prefix = Buffer.alloc(8)
  prefix.writeBigUInt64LE(BigInt(json.length))
  await using file = await open(path, 'w')
  await file.write(Buffer.concat([prefix, json]))
  const noise = new Noise(seed)
  for (const tensor of tensors) await writeTensor(file, tensor, dtype, noise)
}

function toTensors(parameter: Matrix | Vector): Tensor[] {
  const isMatrix = 'columns' in parameter
  const isNorm = !isMatrix && !parameter.name.endsWith('.bias')
  return parameter.sources.map(({ tensor, rows }) => ({
    name: tensor,
    shape: isMatrix ? [rows, parameter.columns] : [rows],
    center: isNorm ? 1 : 0,
    spread: isMatrix ? Math.sqrt(3 / parameter.columns) : 0.2,
  }))
}

/** Values that are made at once. */
const chunkValues = 1 << 20

async function writeTensor(
  file: FileHandle,
  { shape, center, spread }: Tensor,
  dtype: CheckpointType,
  noise: Noise,
): Promise<void> {
  const count = shape.reduce((product, dim) => product * dim, 1)
  const floats = new Float32Array(Math.min(count, chunkValues))
  const stored = new Uint16Array(floats.length)
  for (let done = 0; done < count; done += chunkValues) {
    const values = floats.subarray(0, count - done)
    noise.fill(values, center, spread)
    const bytes = dtype === 'F32' ? values : stored.subarray(0, values.length)
    if (dtype === 'F16') encodeHalves(values, stored)
    if (dtype === 'BF16') encodeBfloats(values, stored)
    await file.write(new Uint8Array(bytes.buffer, 0, bytes.byteLength))
  }
}

/** xorshift32: half a billion values in a few seconds. */
class Noise {
  #state: number

  constructor(seed: number) {
    this.#state = Math.imul(seed + 1, 0x9e3779b1) | 1
  }

  fill(values: Float32Array, center: number, spread: number): void {
    let state = this.#state
    const scale = spread / 2 ** 31
    for (let i = 0; i < values.length; i++) {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      values[i] = center + state * scale
    }
    this.#state = state
  }
}

/** Truncates: the values are random anyway. */
function encodeBfloats(values: Float32Array, into: Uint16Array): void {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
  for (let i = 0; i < bits.length; i++) into[i] = bits[i]! >>> 16
}
