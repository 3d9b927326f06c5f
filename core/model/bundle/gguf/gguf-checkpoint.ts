import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { type ReadHeader, TensorFiles } from '../tensor-files.ts'
import { factorTensors, readGgufConfig } from './gguf-config.ts'
import { type GgufHeader, readGgufHeader } from './gguf-header.ts'
import type { GgufMetadata } from './gguf-metadata.ts'
import { renamed } from './gguf-names.ts'
import { invalidGguf } from './gguf-reader.ts'
import { readGgufTexts } from './gguf-tokenizer.ts'

interface GgufCheckpoint extends AsyncDisposable {
  /** Under their names in Hugging Face's checkpoints. */
  readonly tensors: TensorFiles
  /** Folder with config.json, tokenizer.json and tokenizer_config.json, until this is disposed of. */
  readonly textFolder: string
}

/**
 * Opens the files of one model as the Hugging Face checkpoint that they were made from: the metadata become a folder of text
 * files, and tensors get their names there.
 * @param files in the order of their numbers
 * @throws BrimError GGUF_INVALID, QUANTISATION_UNSUPPORTED, ARCHITECTURE_UNSUPPORTED, TENSOR_MISSING, TOKENIZER_INVALID
 */
export async function openGguf(files: readonly string[]): Promise<GgufCheckpoint> {
  const headers: GgufHeader[] = []
  const readHeader: ReadHeader = async (handle, file, fileBytes) => {
    const header = readGgufHeader(handle.fd, file, fileBytes)
    headers.push(header)
    return header.tensors
  }
  const tensors = await TensorFiles.open(files, { readHeader })
  let textFolder: string | undefined
  const dispose = async () => {
    await tensors[Symbol.asyncDispose]()
    if (textFolder !== undefined) await rm(textFolder, { recursive: true, force: true })
  }
  try {
    const { metadata } = headers[0]!
    checkShards(metadata, files.length)
    const { config, naming } = readGgufConfig(metadata, tensors.tensors, await readFactors(tensors))
    const texts = readGgufTexts(metadata, config.vocab_size)
    tensors.rename((info) => (isFactor(info.name) ? undefined : renamed(info, naming)))
    textFolder = await mkdtemp(join(tmpdir(), 'brim-gguf-'))
    await writeFile(join(textFolder, 'config.json'), `${JSON.stringify({ ...config, ...texts.ids }, null, 1)}\n`)
    for (const [name, text] of texts.files) await writeFile(join(textFolder, name), text)
    return { tensors, textFolder, [Symbol.asyncDispose]: dispose }
  } catch (error) {
    await dispose()
    throw error
  }
}

/** The name of a model without the numbers of its files: Qwen3-0.6B-Q8_0. */
export const ggufName = ([first = '']: readonly string[]): string => basename(first).replace(/(-\d{5}-of-\d{5})?\.gguf$/, '')

const isFactor = (name: string) => factorTensors.some((factor) => factor === name)

/** The first file has the metadata; tensors stand in any. */
function checkShards(metadata: GgufMetadata, files: number): void {
  const expected = metadata.count('split.count') ?? 0
  if (expected > 1 && expected !== files)
    throw invalidGguf(
      metadata.file,
      `is one of ${expected} files, by split.count`,
      'download all of them, under their published names',
    )
}

const maxFactors = 1_024

/** Values of the tensors with rotary factors, by name. */
async function readFactors(files: TensorFiles): Promise<Map<string, readonly number[]>> {
  const factors = new Map<string, readonly number[]>()
  for (const { name, shape, file, dtype } of files.tensors.filter((info) => isFactor(info.name))) {
    const [count = 0, ...others] = shape
    if (others.length > 0 || count > maxFactors || dtype !== 'F32')
      throw invalidGguf(file, `gives the tensor ${name} the type ${dtype} and the shape [${shape.join(', ')}]`)
    const values = new Float32Array(count)
    await files.read(name, 0, values)
    factors.set(name, [...values])
  }
  return factors
}
