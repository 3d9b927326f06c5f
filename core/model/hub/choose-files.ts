import { posix } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { megabytes } from '../../kit/base/megabytes.ts'
import { adapterConfigFile, adapterWeightsFile } from '../bundle/adapter-files.ts'
import { indexFile, singleFile, textFiles } from '../bundle/checkpoint.ts'
import { shardPattern } from '../bundle/gguf/gguf-files.ts'
import { poolingFile } from '../bundle/pooling.ts'
import type { HubFile } from './hub.ts'

/** What a build reads of a model. */
export type ChosenFiles =
  /** With an index, it names the weights. */
  | { readonly kind: 'safetensors'; readonly files: readonly HubFile[]; readonly index: HubFile | undefined }
  /** All files of one model, the first one first. */
  | { readonly kind: 'gguf'; readonly files: readonly HubFile[] }

const alongside: ReadonlySet<string> = new Set([
  ...textFiles,
  poolingFile,
  `adapter/${adapterConfigFile}`,
  `adapter/${adapterWeightsFile}`,
])

/** Names of files that a message lists. */
const maxListed = 12

/**
 * @param repo for error messages
 * @param file the chosen GGUF file, by its path or its name
 * @throws BrimError CHECKPOINT_NOT_FOUND; USAGE where one of several GGUF files must be chosen
 */
export function chooseFiles(repo: string, files: readonly HubFile[], file?: string): ChosenFiles {
  const find = (path: string) => files.find((each) => each.path === path)
  const index = find(singleFile) ? undefined : find(indexFile)
  const weights = find(singleFile) ?? index
  const models = files.filter(({ path }) => isGgufModel(path))
  if (file === undefined && weights)
    return { kind: 'safetensors', files: [...files.filter(({ path }) => alongside.has(path)), weights], index }
  if (models.length === 0)
    throw new BrimError(
      'CHECKPOINT_NOT_FOUND',
      `${repo} has ${weights ? 'no *.gguf' : `neither ${singleFile}, ${indexFile} nor *.gguf`}`,
      {
        hint: weights
          ? 'omit --file: it has safetensors'
          : 'choose a model with safetensors or GGUF; weights in other formats (pytorch_model.bin) must be converted first',
      },
    )
  const chosen = file === undefined ? models : models.filter(({ path }) => path === file || posix.basename(path) === file)
  const [first] = chosen
  if (first && chosen.length === 1) return { kind: 'gguf', files: shardsOf(repo, files, first) }
  const listed = models.slice(0, maxListed).map(({ path, bytes }) => `${path} (${megabytes(bytes)})`)
  const more = models.length > maxListed ? [`and ${models.length - maxListed} more`] : []
  const problem = file === undefined ? `has ${models.length} GGUF files` : `has no ${file}`
  throw new BrimError('USAGE', `${repo} ${problem}: ${[...listed, ...more].join(', ')}`, {
    hint: `add --file, such as --file ${models[0]?.path}`,
  })
}

/** A file that a model can be opened by: no vision encoder, and no later part. */
function isGgufModel(path: string): boolean {
  const name = posix.basename(path)
  return /^\w[\w.+-]*\.gguf$/.test(name) && !name.startsWith('mmproj') && Number(shardPattern.exec(name)?.[2] ?? 1) === 1
}

/** All parts of the model of which `first` is the first one. @throws BrimError CHECKPOINT_NOT_FOUND */
function shardsOf(repo: string, files: readonly HubFile[], first: HubFile): HubFile[] {
  const [, stem, , total] = shardPattern.exec(first.path) ?? []
  if (stem === undefined) return [first]
  const shards = files.filter(({ path }) => {
    const [, own, , of] = shardPattern.exec(path) ?? []
    return own === stem && of === total
  })
  if (shards.length === Number(total)) return shards.sort((a, b) => (a.path < b.path ? -1 : 1))
  throw new BrimError('CHECKPOINT_NOT_FOUND', `${repo} has ${shards.length} of the ${Number(total)} parts of ${first.path}`, {
    hint: 'its upload is not complete: choose another file or another model',
  })
}
