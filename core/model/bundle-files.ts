import type { Manifest, PartName } from './manifest.ts'

type FileEntry = Manifest['files'][number]

/** The parts of a bundle that need this file; none: it is the tokenizer's, or another that all have in common. */
export function partsOf({ parts }: Manifest, path: string): PartName[] {
  const needs = ({ graphs, weights, golden }: NonNullable<Manifest['parts'][PartName]>) =>
    golden === path || Object.values(graphs).includes(path) || weights.some(({ file }) => file === path)
  return Object.entries(parts).flatMap(([name, part]) => (needs(part) ? [name as PartName] : []))
}

/** Whatever runs on a device: all but the middle, which is the cloud's and by far the largest. */
export function devicePartsOf({ parts }: Manifest): PartName[] {
  return (Object.keys(parts) as PartName[]).filter((part) => part !== 'middle')
}

/** The files of a bundle that these parts need, and those that belong to none. */
export function filesOf(manifest: Manifest, wanted: readonly PartName[]): FileEntry[] {
  return manifest.files.filter(({ path }) => {
    const parts = partsOf(manifest, path)
    return parts.length === 0 || parts.some((part) => wanted.includes(part))
  })
}
