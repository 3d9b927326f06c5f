import type { Manifest, PartManifest, PartName } from '../model/manifest.ts'

/** What `build` and `inspect` print of one part. */
export interface PartSummary {
  part: PartName
  layers: [number, number]
  kvHeads: number
  headDim: number
  /** Sequences per packed step for which there are graphs. */
  slots: number[]
  /** Bytes of its own files; weights that it shares with another part count there. */
  bytes: number
}

export interface BundleSummary extends Omit<Manifest, 'parts' | 'files'> {
  dir: string
  bytes: number
  parts: PartSummary[]
}

export function summarize(dir: string, manifest: Manifest): BundleSummary {
  const { parts, files, ...rest } = manifest
  return {
    dir,
    bytes: files.reduce((sum, file) => sum + file.bytes, 0),
    ...rest,
    parts: Object.entries(parts).map(([name, part]) => summarizePart(name as PartName, part, files)),
  }
}

export function bundleText({ dir, card, dims, format, split, bytes, parts, modelId }: BundleSummary): string {
  const level = format.accuracyLevel === undefined ? '' : `, accuracy level ${format.accuracyLevel}`
  const rows = [
    ['model', `${card.name} (${card.family}, ${(card.parameters / 1e6).toFixed(1)} M parameters)`],
    ['format', `${format.name}${level}, ${megabytes(bytes)}`],
    ['split', split === null ? 'none: one whole part' : `after layer ${split} of ${dims.layers}`],
    [
      'shape',
      `${dims.layers} layers of width ${dims.hidden}, ${dims.heads} heads (${dims.kvHeads} key-value) of ${dims.headDim}`,
    ],
    ['context', `${dims.contextLimit} tokens, vocabulary ${dims.vocab}`],
    ['built', `${card.createdAt} by ${card.createdBy}`],
    ['model id', modelId],
    ...parts.map((part) => [part.part, partText(part)]),
  ]
  return [dir, ...rows.map(([name, value]) => `  ${(name ?? '').padEnd(9)} ${value}`)].join('\n')
}

export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`

function partText({ part, layers: [from, to], slots, bytes }: PartSummary): string {
  const layers = to - from === 1 ? `layer ${from}` : `layers ${from} to ${to - 1}`
  const what = part === 'output' ? 'norm and head' : part === 'adapter' ? 'one attention block' : layers
  return `${megabytes(bytes)}, ${what}, ${slots.join('/')} slot${slots.length > 1 ? 's' : ''}`
}

function summarizePart(
  part: PartName,
  { layers, kvHeads, headDim, graphs }: PartManifest,
  files: Manifest['files'],
): PartSummary {
  const own = files.filter(({ path }) => path.startsWith(`${part}.`))
  const bytes = own.reduce((sum, file) => sum + file.bytes, 0)
  return { part, layers, kvHeads, headDim, slots: Object.keys(graphs).map(Number), bytes }
}
