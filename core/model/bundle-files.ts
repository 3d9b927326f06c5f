import type { Manifest, PartName } from './manifest.ts'

type FileEntry = Manifest['files'][number]

/** The parts of a bundle that need this file; none: it is the tokenizer's, or another that all have in common. */
export function partsOf(manifest: Manifest, path: string): PartName[] {
  return partsByFile(manifest).get(path) ?? []
}

/** Of each file that a part needs: which do. In one pass, for a manifest from a stranger may name very many. */
function partsByFile({ parts }: Manifest): Map<string, PartName[]> {
  const needers = new Map<string, PartName[]>()
  for (const [name, { graphs, weights, golden }] of Object.entries(parts))
    for (const path of new Set([golden, ...Object.values(graphs), ...weights.map(({ file }) => file)]))
      needers.set(path, [...(needers.get(path) ?? []), name as PartName])
  return needers
}

/** Whatever runs on a device: all but the middle, which is the cloud's and by far the largest. */
export function devicePartsOf({ parts }: Manifest): PartName[] {
  return (Object.keys(parts) as PartName[]).filter((part) => part !== 'middle')
}

/** The files of a bundle that these parts need, and those that belong to none. */
export function filesOf(manifest: Manifest, wanted: readonly PartName[]): FileEntry[] {
  const needers = partsByFile(manifest)
  return manifest.files.filter(({ path }) => needers.get(path)?.some((part) => wanted.includes(part)) ?? true)
}
