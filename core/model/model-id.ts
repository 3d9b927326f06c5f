import { createHash } from 'node:crypto'
import { isDrafter, type Manifest, type PartName } from './manifest.ts'

/** See Manifest.modelId. The id covers everything that decides the LLM's answers, and nothing else. */
export function modelIdOf({
  dims,
  split,
  format,
  parts,
  files,
}: Omit<Manifest, 'schema' | 'card' | 'tokens' | 'modelId'>): string {
  const decisive = Object.entries(parts)
    .filter(([part]) => !isDrafter(part as PartName))
    .flatMap(([, part]) => [...Object.values(part.graphs), ...part.weights.map((weight) => weight.file)])
  const hashes = files.filter(({ path }) => decisive.includes(path)).map(({ path, sha256 }) => [path, sha256])
  return createHash('sha256')
    .update(JSON.stringify([dims, split, format, hashes.sort()]))
    .digest('hex')
}
