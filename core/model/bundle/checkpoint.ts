import { readFile, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { isLfsPointer, lfsHint, lfsProblem } from '../../kit/base/lfs-pointer.ts'
import { loadTokenizer, tokenizerFile } from '../text/tokenizer.ts'
import type { Architecture } from './architecture.ts'
import { readArchitecture } from './families/index.ts'
import { ggufName, openGguf } from './gguf/gguf-checkpoint.ts'
import { ggufFiles } from './gguf/gguf-files.ts'
import { readQuantisation } from './group-quants.ts'
import { QuantisedTensors } from './group-tensors.ts'
import type { Manifest } from './manifest.ts'
import { embeddingTensor, headTensor, type Matrix, type Vector } from './parameters.ts'
import { type CheckpointTensors, checkTensor, TensorFiles } from './tensor-files.ts'

export interface Checkpoint extends AsyncDisposable {
  /** The folder of the weights. Drafters have folders in it. */
  readonly folder: string
  /** The folder of `textFiles`: the same, or made from a GGUF file and removed with the checkpoint. */
  readonly textFolder: string
  /** Unless the builder gives another one. */
  readonly name: string
  readonly architecture: Architecture
  readonly tokens: Manifest['tokens']
  readonly tensors: CheckpointTensors
}

/** What PICE asks this model (core/answer/sketch/prompts.ts); a model without the file is asked in plain language. */
export const picePromptsFile = 'pice-prompts.json'

/** Files that are copied into the bundle if the checkpoint has them. */
export const textFiles = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
  'generation_config.json',
  'config.json',
  picePromptsFile,
] as const

/**
 * Opens a Hugging Face directory, a GGUF file or a folder with one.
 * @throws BrimError CHECKPOINT_NOT_FOUND, CHECKPOINT_INVALID, ARCHITECTURE_UNSUPPORTED, SAFETENSORS_INVALID, GGUF_INVALID,
 * QUANTISATION_UNSUPPORTED, TOKENIZER_INVALID, VOCABULARY_MISMATCH
 */
export async function openCheckpoint(path: string): Promise<Checkpoint> {
  const files = await ggufFiles(path)
  return files ? openGgufCheckpoint(path, files) : openFolder(path)
}

async function openFolder(folder: string): Promise<Checkpoint> {
  const read = await readTexts(folder)
  const form = read.quantisation === undefined ? undefined : readQuantisation(read.quantisation)
  const files = await TensorFiles.open(await weightFiles(folder))
  try {
    const tensors = form ? await QuantisedTensors.open(files, form) : files
    return { folder, textFolder: folder, name: basename(resolve(folder)), ...(await withTensors(read, tensors)) }
  } catch (error) {
    await files[Symbol.asyncDispose]()
    throw error
  }
}

async function openGgufCheckpoint(path: string, files: readonly string[]): Promise<Checkpoint> {
  const gguf = await openGguf(files)
  try {
    const read = await readTexts(gguf.textFolder).catch((error: unknown) => {
      throw error instanceof BrimError ? ofGguf(error, files, gguf.textFolder) : error
    })
    const folder = path.endsWith('.gguf') ? dirname(path) : path
    const opened = await withTensors(read, gguf.tensors)
    const { textFolder } = gguf
    return { ...opened, folder, textFolder, name: ggufName(files), [Symbol.asyncDispose]: () => gguf[Symbol.asyncDispose]() }
  } catch (error) {
    await gguf[Symbol.asyncDispose]()
    throw error
  }
}

/** The text files of a GGUF file have no lasting names. */
function ofGguf(error: BrimError, [file = '']: readonly string[], textFolder: string): BrimError {
  const message = `${basename(file)}, in Hugging Face's terms: ${error.message.replaceAll(`${textFolder}/`, '')}`
  return new BrimError(error.code, message, { cause: error, hint: error.hint ?? 'take another conversion of the model' })
}

interface CheckpointTexts {
  readonly configured: Architecture
  readonly tokens: Manifest['tokens']
  /** `quantization_config` of config.json. */
  readonly quantisation: unknown
}

/** What config.json, generation_config.json and tokenizer.json say. */
async function readTexts(folder: string): Promise<CheckpointTexts> {
  const config = await readJsonFile(folder, 'config.json')
  if (config === undefined)
    throw new BrimError('CHECKPOINT_NOT_FOUND', `${folder} has no config.json`, {
      hint: 'give a GGUF file, or the folder of a Hugging Face model with config.json, *.safetensors and tokenizer.json',
    })
  const configured = readArchitecture(config)
  await checkVocabulary(folder, configured.dims.vocab)
  const tokens = readTokens({ ...(config as object), ...((await readJsonFile(folder, 'generation_config.json')) ?? {}) })
  return { configured, tokens, quantisation: 'quantization_config' in config ? config.quantization_config : undefined }
}

async function withTensors({ configured, tokens }: CheckpointTexts, tensors: CheckpointTensors) {
  const model = withoutRoot(configured, tensors)
  const architecture = { ...model, tiedEmbeddings: model.tiedEmbeddings && !(await hasOwnHead(model, tensors)) }
  return { architecture, tokens, tensors, [Symbol.asyncDispose]: () => tensors[Symbol.asyncDispose]() }
}

/** Models for embeddings are often saved without what is around their layers: names begin with "layers.". */
function withoutRoot(model: Architecture, tensors: CheckpointTensors): Architecture {
  const bare = { ...model, tensorRoot: '' }
  return !tensors.find(embeddingTensor(model)) && tensors.find(embeddingTensor(bare)) ? bare : model
}

/**
 * Checks that the checkpoint has every tensor of the parameters, in a readable type and the right shape, and no others.
 * @throws BrimError TENSOR_MISSING, TENSOR_MISMATCH, TENSOR_UNEXPECTED
 */
export function checkTensors(
  tensors: CheckpointTensors,
  parameters: readonly (Matrix | Vector)[],
  ignore: (name: string) => boolean,
): void {
  const needed = new Set<string>()
  for (const parameter of parameters)
    for (const { tensor, rows: own, within } of parameter.sources) {
      const rows = within?.of ?? own
      const info = tensors.find(tensor)
      if (!info)
        throw new BrimError('TENSOR_MISSING', `the tensor ${tensor} is not in ${tensors.name}`, {
          hint: 'check that the checkpoint is complete and that config.json belongs to it',
        })
      checkTensor(info, 'columns' in parameter ? [rows, parameter.columns] : (parameter.dims ?? [rows]))
      needed.add(tensor)
    }
  const extra = tensors.tensors.find(({ name }) => !needed.has(name) && !ignore(name))
  if (extra)
    throw new BrimError('TENSOR_UNEXPECTED', `${extra.file}: the tensor ${extra.name} is not part of this architecture`, {
      hint: 'use the config.json of the same model; merge a fine-tune into its base model first',
    })
}

/**
 * Tensors that some checkpoints include: rotary tables, which Brim computes, a copy of a tied head, and of hybrid models the
 * parts that read pictures and that guess further tokens.
 */
export function isRedundant(name: string, { tiedEmbeddings, delta }: Architecture): boolean {
  if (delta && (name.startsWith('model.visual.') || name.startsWith('mtp.'))) return true
  return name.endsWith('.rotary_emb.inv_freq') || (tiedEmbeddings && name === headTensor)
}

/** As transformers 5 does: a head that differs from the embedding is used even if config.json ties the two. */
async function hasOwnHead(model: Architecture, tensors: CheckpointTensors): Promise<boolean> {
  return tensors.find(headTensor) !== undefined && !(await tensors.areEqual(embeddingTensor(model), headTensor))
}

/** @returns undefined if the file does not exist. @throws BrimError CHECKPOINT_INVALID if it is not a JSON object */
export async function readJsonFile(folder: string, file: string): Promise<object | undefined> {
  let text: string
  try {
    text = await readFile(join(folder, file), 'utf8')
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new BrimError('CHECKPOINT_INVALID', `cannot read ${join(folder, file)}`, { cause })
  }
  try {
    return z.looseObject({}).parse(JSON.parse(text))
  } catch (cause) {
    if (isLfsPointer(text)) throw new BrimError('CHECKPOINT_INVALID', `${join(folder, file)} ${lfsProblem}`, { hint: lfsHint })
    throw new BrimError('CHECKPOINT_INVALID', `${join(folder, file)} is not a JSON object`, {
      cause,
      hint: 'copy or download the file again',
    })
  }
}

export const indexFile = 'model.safetensors.index.json'
export const singleFile = 'model.safetensors'

/** The single weights file, or the shards that the index lists. */
export async function weightFiles(folder: string): Promise<string[]> {
  if (await isFile(join(folder, singleFile))) return [join(folder, singleFile)]
  const index = await readJsonFile(folder, indexFile)
  if (index === undefined)
    throw new BrimError('CHECKPOINT_NOT_FOUND', `${folder} has neither ${singleFile} nor ${indexFile}`, {
      hint: 'give a GGUF file, or convert weights in other formats (pytorch_model.bin) to safetensors first',
    })
  const parsed = z.looseObject({ weight_map: z.record(z.string(), z.string().regex(/^[^/\\]+\.safetensors$/)) }).safeParse(index)
  if (!parsed.success)
    throw new BrimError('CHECKPOINT_INVALID', `${indexFile} does not map tensors to files`, { cause: parsed.error })
  return [...new Set(Object.values(parsed.data.weight_map))].sort().map((name) => join(folder, name))
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  )
}

const TokenIds = z.looseObject({
  bos_token_id: z.int().nullish(),
  eos_token_id: z.union([z.int().transform((id) => [id]), z.array(z.int())]).nullish(),
  pad_token_id: z.int().nullish(),
})

function readTokens(config: object): Manifest['tokens'] {
  const parsed = TokenIds.safeParse(config)
  if (!parsed.success)
    throw new BrimError('CHECKPOINT_INVALID', 'config.json or generation_config.json: a special token is not an integer id', {
      cause: parsed.error,
    })
  const { bos_token_id: bos, eos_token_id: eos, pad_token_id: pad } = parsed.data
  return { ...(typeof bos === 'number' ? { bos } : {}), eos: eos ?? [], ...(typeof pad === 'number' ? { pad } : {}) }
}

/** A token id without an embedding row cannot be run. Spare embedding rows are padding and harmless. */
async function checkVocabulary(folder: string, rows: number): Promise<void> {
  if (!(await isFile(join(folder, tokenizerFile)))) return
  const last = (await loadTokenizer(folder)).vocabSize - 1
  if (last >= rows)
    throw new BrimError('VOCABULARY_MISMATCH', `${tokenizerFile} has ids up to ${last}, but the embedding has ${rows} rows`, {
      hint: 'use the tokenizer of the same model, or resize the embedding for the added tokens',
    })
}
