import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../base/errors.ts'
import { loadTokenizer, tokenizerFile } from '../text/tokenizer.ts'
import type { Architecture } from './architecture.ts'
import { readArchitecture } from './families/index.ts'
import type { Manifest } from './manifest.ts'
import { embeddingTensor, headTensor, type Matrix, type Vector } from './parameters.ts'
import { checkTensor, TensorFiles } from './tensor-files.ts'

export interface Checkpoint extends AsyncDisposable {
  readonly folder: string
  readonly architecture: Architecture
  readonly tokens: Manifest['tokens']
  readonly tensors: TensorFiles
}

/** Files that go into the bundle beside the weights, where the checkpoint has them. */
export const textFiles = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
  'generation_config.json',
  'config.json',
] as const

/**
 * Opens a Hugging Face directory.
 * @throws BrimError CHECKPOINT_NOT_FOUND, CHECKPOINT_INVALID, ARCHITECTURE_UNSUPPORTED, SAFETENSORS_INVALID, TOKENIZER_INVALID,
 * VOCABULARY_MISMATCH
 */
export async function openCheckpoint(folder: string): Promise<Checkpoint> {
  const config = await readJson(folder, 'config.json')
  if (config === undefined)
    throw new BrimError('CHECKPOINT_NOT_FOUND', `${folder} holds no config.json`, {
      hint: 'give the folder of a Hugging Face model: config.json, *.safetensors, tokenizer.json',
    })
  const configured = readArchitecture(config)
  await checkVocabulary(folder, configured.dims.vocab)
  const tokens = readTokens({ ...(config as object), ...((await readJson(folder, 'generation_config.json')) ?? {}) })
  const tensors = await TensorFiles.open(await weightFiles(folder))
  const architecture = { ...configured, tiedEmbeddings: configured.tiedEmbeddings && !(await hasOwnHead(tensors)) }
  return { folder, architecture, tokens, tensors, [Symbol.asyncDispose]: () => tensors[Symbol.asyncDispose]() }
}

/**
 * Every tensor that the parameters need is there, in a type and shape we can read, and none is left over.
 * @throws BrimError TENSOR_MISSING, TENSOR_MISMATCH, TENSOR_UNEXPECTED
 */
export function checkTensors(
  tensors: TensorFiles,
  parameters: readonly (Matrix | Vector)[],
  ignore: (name: string) => boolean,
): void {
  const needed = new Set<string>()
  for (const parameter of parameters)
    for (const { tensor, rows } of parameter.sources) {
      const info = tensors.find(tensor)
      if (!info)
        throw new BrimError('TENSOR_MISSING', `the tensor ${tensor} is not in ${tensors.name}`, {
          hint: 'is the checkpoint complete, and does its configuration belong to it?',
        })
      checkTensor(info, 'columns' in parameter ? [rows, parameter.columns] : [rows])
      needed.add(tensor)
    }
  const extra = tensors.tensors.find(({ name }) => !needed.has(name) && !ignore(name))
  if (extra)
    throw new BrimError('TENSOR_UNEXPECTED', `${extra.file}: the tensor ${extra.name} has no place in this architecture`, {
      hint: 'config.json and weights are of different models, or it is a fine-tune that must be merged first',
    })
}

/** Tensors that some checkpoints carry along: rotary tables, which we compute, and a copy of a tied head. */
export function isRedundant(name: string, { tiedEmbeddings }: Architecture): boolean {
  return name.endsWith('.rotary_emb.inv_freq') || (tiedEmbeddings && name === headTensor)
}

/** As transformers 5 does: a head that differs from the embedding is used even if config.json ties the two. */
async function hasOwnHead(tensors: TensorFiles): Promise<boolean> {
  return tensors.find(headTensor) !== undefined && !(await tensors.areEqual(embeddingTensor, headTensor))
}

/** @returns undefined where there is no such file. @throws BrimError CHECKPOINT_INVALID for what is no JSON object */
export async function readJson(folder: string, file: string): Promise<object | undefined> {
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
    throw new BrimError('CHECKPOINT_INVALID', `${join(folder, file)} is no JSON object`, {
      cause,
      hint: 'copy or download it again',
    })
  }
}

const indexFile = 'model.safetensors.index.json'
const singleFile = 'model.safetensors'

/** One file, or the shards that the index names. */
async function weightFiles(folder: string): Promise<string[]> {
  if (await isFile(join(folder, singleFile))) return [join(folder, singleFile)]
  const index = await readJson(folder, indexFile)
  if (index === undefined)
    throw new BrimError('CHECKPOINT_NOT_FOUND', `${folder} holds neither ${singleFile} nor ${indexFile}`, {
      hint: 'weights in other formats (pytorch_model.bin, GGUF) must be saved as safetensors first',
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
    throw new BrimError('CHECKPOINT_INVALID', 'config.json or generation_config.json: special tokens are not ids', {
      cause: parsed.error,
    })
  const { bos_token_id: bos, eos_token_id: eos, pad_token_id: pad } = parsed.data
  return { ...(typeof bos === 'number' ? { bos } : {}), eos: eos ?? [], ...(typeof pad === 'number' ? { pad } : {}) }
}

/** A tokenizer that can give ids without an embedding would break the model; spare embedding rows are mere padding. */
async function checkVocabulary(folder: string, rows: number): Promise<void> {
  if (!(await isFile(join(folder, tokenizerFile)))) return
  const last = (await loadTokenizer(folder)).vocabSize - 1
  if (last >= rows)
    throw new BrimError('VOCABULARY_MISMATCH', `${tokenizerFile} gives ids up to ${last}, but the embedding has ${rows} rows`, {
      hint: 'tokenizer and weights are of different models; or the embedding was never resized for the added tokens',
    })
}
