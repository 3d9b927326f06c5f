import { access, readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { BrimError } from '../../../kit/base/errors.ts'

export const shardPattern = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/
const maxShards = 1_000

/**
 * The GGUF files of one model: the path itself, all shards of the path, or what a folder without config.json has.
 * @returns undefined if the path is not GGUF
 * @throws BrimError CHECKPOINT_NOT_FOUND, CHECKPOINT_INVALID
 */
export async function ggufFiles(path: string): Promise<string[] | undefined> {
  if (path.endsWith('.gguf')) return shardsOf(path)
  const names = await readdir(path).catch((): string[] => [])
  if (names.includes('config.json')) return undefined
  // A vision encoder comes beside the model as mmproj-….gguf.
  const found = names.filter((name) => name.endsWith('.gguf') && !name.startsWith('mmproj')).sort()
  const models = found.filter((name) => Number(shardPattern.exec(name)?.[2] ?? 1) === 1)
  const [first] = models
  if (first === undefined) return undefined
  if (models.length > 1)
    throw new BrimError('CHECKPOINT_INVALID', `${path} has ${models.length} GGUF models: ${models.slice(0, 8).join(', ')}`, {
      hint: 'give the file instead of its folder',
    })
  return shardsOf(join(path, first))
}

async function shardsOf(path: string): Promise<string[]> {
  const [, name, , total] = shardPattern.exec(basename(path)) ?? []
  const count = Number(total ?? 1)
  const fileOf = (shard: number) => join(dirname(path), `${name}-${String(shard).padStart(5, '0')}-of-${total}.gguf`)
  if (count > maxShards)
    throw new BrimError('CHECKPOINT_INVALID', `${path} is one of ${count} files; at most ${maxShards} are read`)
  const files = name === undefined ? [path] : Array.from({ length: count }, (_, i) => fileOf(i + 1))
  for (const file of files)
    await access(file).catch((cause) => {
      throw new BrimError('CHECKPOINT_NOT_FOUND', `${file} does not exist or cannot be read`, {
        cause,
        hint: files.length > 1 ? `download all ${files.length} files of the model into one folder` : 'check the path',
      })
    })
  return files
}
