import { tokenizerFile } from '../text/tokenizer.ts'
import { type Manifest, type PartName, tokenizerFolder } from './manifest.ts'

type FileEntry = Manifest['files'][number]

/** The parts of a bundle that need this file; [] for a file that belongs to all, such as the tokenizer. */
export function partsOf(manifest: Manifest, path: string): PartName[] {
  return partsByFile(manifest).get(path) ?? []
}

/** Parts by the files that they need. Built in one pass, because an untrusted manifest may list very many files. */
function partsByFile({ parts }: Manifest): Map<string, PartName[]> {
  const partsOf = new Map<string, PartName[]>()
  for (const [name, { graphs, weights, golden }] of Object.entries(parts))
    for (const path of new Set([golden, ...Object.values(graphs), ...weights.map(({ file }) => file)]))
      partsOf.set(path, [...(partsOf.get(path) ?? []), name as PartName])
  return partsOf
}

/** The parts that run on a device: all but the middle, which runs at the bridge and is the largest. */
export function devicePartsOf({ parts }: Manifest): PartName[] {
  return (Object.keys(parts) as PartName[]).filter((part) => part !== 'middle')
}

/** The files of a bundle that these parts need, and those that belong to all. */
export function filesOf(manifest: Manifest, wanted: readonly PartName[]): FileEntry[] {
  const parts = partsByFile(manifest)
  return manifest.files.filter(({ path }) => parts.get(path)?.some((part) => wanted.includes(part)) ?? true)
}

/** SHA-256 of the tokenizer's file; undefined where the bundle does not list one. */
export function tokenizerHashOf({ files }: Pick<Manifest, 'files'>): string | undefined {
  return files.find(({ path }) => path === `${tokenizerFolder}/${tokenizerFile}`)?.sha256
}
