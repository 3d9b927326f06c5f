import { createHash } from 'node:crypto'
import { isDrafter, type Manifest, type PartManifest, type PartName } from './manifest.ts'

type Described = Omit<Manifest, 'card' | 'modelId'>

/** See Manifest.modelId. The id covers everything that decides the LLM's answers, and nothing else. */
export function modelIdOf(manifest: Described): string {
  const { schema, dims, split, format, tokens, parts, files } = manifest
  const own = Object.entries(parts).filter(([part]) => !isDrafter(part as PartName))
  const ownFiles = new Set(own.flatMap(([, part]) => filesOf(part)))
  // The id of a bundle with schema 1 stays as it is, although it does not cover tokenizer, template and layers.
  if (schema === 1) return sha256(JSON.stringify([dims, split, format, hashesOf(files, (path) => ownFiles.has(path))]))
  const partFiles = new Set(Object.values(parts).flatMap((part) => [part.golden, ...filesOf(part)]))
  const described = Object.fromEntries(own.map(([name, { golden: _, ...part }]) => [name, part]))
  const hashes = hashesOf(files, (path) => ownFiles.has(path) || !partFiles.has(path))
  return sha256(canonicalJson([schema, dims, split, format, tokens, described, hashes]))
}

/** Files that decide a part's results: its golden vector only tests them. */
const filesOf = ({ graphs, weights }: PartManifest) => [...Object.values(graphs), ...weights.map(({ file }) => file)]

const hashesOf = (files: Manifest['files'], isDecisive: (path: string) => boolean) =>
  files
    .filter(({ path }) => isDecisive(path))
    .map(({ path, sha256 }) => [path, sha256])
    .sort()

/** JSON with sorted keys: a manifest has the same id before it is written and after it is read. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  )
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
