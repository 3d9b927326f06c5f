import { stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import type { Architecture, DraftHead, Rope } from './architecture.ts'
import { readJsonFile, weightFiles } from './checkpoint.ts'
import { checkHiddenSize } from './drafter-config.ts'
import { DecoderConfig, describeDecoder, parseDecoderConfig } from './families/decoder-config.ts'
import type { Dims } from './manifest.ts'
import { embeddingTensor } from './parameters.ts'
import { type CheckpointTensors, TensorFiles } from './tensor-files.ts'

const configFile = 'config.json'
const inputTensor = 'fc.weight'
const ownEmbedding = 'embed_tokens.weight'

/** Rows of two embeddings that are compared, and how far they may differ: the LLM's may be quantised. */
const comparedRows = 64
const maxDifference = 0.2

export interface DraftHeadFiles extends AsyncDisposable {
  readonly head: DraftHead
  readonly tensors: TensorFiles
}

/**
 * Opens a draft head in the layout of EAGLE and EAGLE-2, as published.
 * @param path a folder with config.json and safetensors, or the safetensors in it
 * @param model the LLM that it drafts for @param llm its tensors; undefined: the embedding is not compared
 * @throws BrimError CHECKPOINT_NOT_FOUND, CHECKPOINT_INVALID, ARCHITECTURE_UNSUPPORTED, SAFETENSORS_INVALID, VALUE_OUT_OF_RANGE
 */
export async function openDraftHead(path: string, model: Architecture, llm?: CheckpointTensors): Promise<DraftHeadFiles> {
  const { folder, files } = await filesOf(path)
  const config = await readJsonFile(folder, configFile)
  if (!config)
    throw new BrimError('CHECKPOINT_NOT_FOUND', `the draft head ${folder} has no ${configFile}`, {
      hint: 'give the folder of a published EAGLE head: config.json and model.safetensors',
    })
  const tensors = await TensorFiles.open(files, { folder: basename(resolve(folder)) })
  try {
    requireEagle(tensors, folder)
    const head = readHead(join(folder, configFile), config, tensors, model)
    if (llm) await requireSameEmbedding(tensors, model, llm)
    return { head, tensors, [Symbol.asyncDispose]: () => tensors[Symbol.asyncDispose]() }
  } catch (error) {
    await tensors[Symbol.asyncDispose]()
    throw error
  }
}

/** Tensors of published heads that a bundle has already, or that Brim computes. */
export const isRedundantInHead = (name: string): boolean => name === ownEmbedding || name.endsWith('.rotary_emb.inv_freq')

/** A Llama layer without the norm before its attention, of tensors without a prefix. */
export function draftLayer(shape: {
  readonly dims: Dims
  readonly epsilon: number
  readonly rope: Rope
  readonly qkvBias: boolean
}): Architecture {
  const { dims, epsilon, rope, qkvBias } = shape
  const config = DecoderConfig.parse({
    hidden_size: dims.hidden,
    intermediate_size: dims.ffn,
    num_hidden_layers: 1,
    num_attention_heads: dims.heads,
    num_key_value_heads: dims.kvHeads,
    head_dim: dims.headDim,
    vocab_size: dims.vocab,
    max_position_embeddings: dims.contextLimit,
    rms_norm_eps: epsilon,
  })
  const own = { names: { beforeAttention: undefined }, bias: { qkv: qkvBias }, ropes: { global: rope } }
  return { ...describeDecoder('eagle', config, own), tensorRoot: '' }
}

async function filesOf(path: string): Promise<{ folder: string; files: string[] }> {
  if (/\.(bin|pt|pth)$/.test(path)) throw pickled(path)
  if (path.endsWith('.safetensors')) return { folder: dirname(path), files: [path] }
  try {
    return { folder: path, files: await weightFiles(path) }
  } catch (error) {
    if (!(error instanceof BrimError) || error.code !== 'CHECKPOINT_NOT_FOUND') throw error
    const bin = join(path, 'pytorch_model.bin')
    const found = await stat(bin).catch(() => undefined)
    throw found ? pickled(bin) : new BrimError(error.code, `the draft head ${error.message}`, { hint: error.hint })
  }
}

/** A pickle can run any program when it is read. */
const pickled = (file: string) =>
  new BrimError('CHECKPOINT_INVALID', `the draft head ${file} is a Python pickle, which Brim does not read`, {
    hint: `convert it in Python: safetensors.torch.save_file(torch.load("${basename(file)}", weights_only=True), "model.safetensors")`,
  })

function requireEagle(tensors: TensorFiles, folder: string): void {
  const names = tensors.tensors.map(({ name }) => name)
  if (names.some((name) => name.startsWith('midlayer.') || name === 'd2t' || name === 't2d'))
    throw new BrimError(
      'ARCHITECTURE_UNSUPPORTED',
      `the draft head ${folder} is of EAGLE-3: it reads states of a low, a middle and a high layer, and a bridge returns those of the last layer only`,
      { hint: 'take an EAGLE or EAGLE-2 head of the same model; devices draft by prompt lookup without one' },
    )
  if (names.includes(inputTensor)) return
  throw new BrimError(
    'CHECKPOINT_INVALID',
    `${tensors.name} has no tensor ${inputTensor}, so it is no draft head in EAGLE's layout`,
    {
      hint: "a published EAGLE head has fc.weight and layers.0.*; Brim's own adapters are given with --adapter",
    },
  )
}

function readHead(path: string, raw: object, tensors: TensorFiles, model: Architecture): DraftHead {
  const { dims: read, epsilon, ropes } = ofHead(path, () => describeDecoder('eagle', parseDecoderConfig(DecoderConfig, raw)))
  checkHiddenSize(path, read.hidden, model)
  const layers = new Set(tensors.tensors.flatMap(({ name }) => /^layers\.(\d+)\./.exec(name)?.[1] ?? []))
  if (read.layers !== 1 || layers.size > 1)
    throw new BrimError(
      'ARCHITECTURE_UNSUPPORTED',
      `${path}: the draft head has ${Math.max(read.layers, layers.size)} layers, not 1`,
      {
        hint: 'take a head with one decoder layer, as EAGLE publishes them',
      },
    )
  const { heads, kvHeads, headDim, ffn } = read
  const dims = { ...model.dims, layers: 1, heads, kvHeads, headDim, ffn }
  const qkvBias = tensors.find('layers.0.self_attn.q_proj.bias') !== undefined
  return { layer: draftLayer({ dims, epsilon, rope: ropes.global, qkvBias }), hasBias: tensors.find('fc.bias') !== undefined }
}

/** Errors of the reader name a config.json, which could be the LLM's. */
function ofHead<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof BrimError)) throw error
    throw new BrimError(error.code, `the draft head ${path.slice(0, -configFile.length)}${error.message}`, {
      cause: error,
      hint: error.hint ?? 'compare it with the config.json of the published head',
    })
  }
}

/** A head comes with the embedding of its LLM, which is not trained: another one belongs to another LLM. */
async function requireSameEmbedding(tensors: TensorFiles, model: Architecture, llm: CheckpointTensors): Promise<void> {
  const own = tensors.find(ownEmbedding)
  const theirs = llm.find(embeddingTensor(model))
  if (!own || !theirs) return
  const { hidden, vocab } = model.dims
  const rows = Math.min(own.shape[0] ?? 0, vocab)
  if (own.shape.length !== 2 || own.shape[1] !== hidden || rows === 0) throw otherModel(tensors, `is [${own.shape.join(', ')}]`)
  const [a, b] = [new Float32Array(hidden), new Float32Array(hidden)]
  let [difference, size] = [0, 0]
  for (let at = 0; at < Math.min(comparedRows, rows); at++) {
    const row = Math.floor((at * rows) / Math.min(comparedRows, rows))
    await tensors.read(ownEmbedding, row * hidden, a)
    await llm.read(theirs.name, row * hidden, b)
    for (let i = 0; i < hidden; i++) {
      difference += (a[i]! - b[i]!) ** 2
      size += b[i]! ** 2
    }
  }
  if (difference > maxDifference ** 2 * size) throw otherModel(tensors, "differs from the model's embedding")
}

const otherModel = ({ name }: TensorFiles, how: string) =>
  new BrimError(
    'CHECKPOINT_INVALID',
    `${name}: the tensor ${ownEmbedding} ${how}: the draft head was trained for another model`,
    {
      hint: 'use a draft head that was trained for this model',
    },
  )
