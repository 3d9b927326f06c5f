import { megabytes } from '../kit/base/megabytes.ts'
import {
  draftOutput,
  graphKey,
  isDrafter,
  type Manifest,
  type PartManifest,
  type PartName,
  slotCounts,
} from '../model/bundle/manifest.ts'

/** What `build` and `inspect` print of one part. */
interface PartSummary extends Pick<PartManifest, 'layers' | 'kvHeads' | 'headDim' | 'features' | 'draftHead' | 'heads' | 'tree'> {
  readonly part: PartName
  /** Sequences per packed step, one graph for each. */
  readonly slots: readonly number[]
  /** Size of its own files; shared weights count for the part that owns them. */
  readonly bytes: number
}

interface BundleSummary extends Omit<Manifest, 'parts' | 'files'> {
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

export function bundleText(summary: BundleSummary): string {
  const { dir, card, dims, format, deviceFormat, vocabularyFormat, split, bytes, parts, modelId } = summary
  const { accuracyLevel, blockSize } = format.accuracyLevel === undefined && deviceFormat ? deviceFormat : format
  const level = accuracyLevel === undefined ? '' : `, accuracy level ${accuracyLevel}, blocks of ${blockSize}`
  const rows = [
    ['model', `${card.name} (${card.family}, ${(card.parameters / 1e6).toFixed(1)} M parameters)`],
    [
      'format',
      `${format.name}${level}${deviceFormat ? `, ${deviceFormat.name} on devices` : ''}${vocabularyFormat ? `, ${vocabularyFormat.name} for embedding and head` : ''}, ${megabytes(bytes)}`,
    ],
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
  const width = Math.max(9, ...parts.map(({ part }) => part.length))
  return [dir, ...rows.map(([name, value]) => `  ${(name ?? '').padEnd(width)} ${value}`)].join('\n')
}

function partText(part: PartSummary): string {
  const { slots, bytes } = part
  return `${megabytes(bytes)}, ${contentText(part)}, ${slots.join('/')} slot${slots.length > 1 ? 's' : ''}`
}

function contentText({ part, layers: [from, to], features, draftHead, heads, tree }: PartSummary): string {
  if (part === 'output') return 'norm and head'
  if (part === draftOutput) return 'head, for the draft head'
  if (draftHead) return 'a draft head: one layer with features'
  if (part === 'medusa') return `${heads} heads, a tree of ${tree?.length}`
  if (isDrafter(part)) return `one attention block${features ? ' with features' : ''}`
  return to - from === 1 ? `layer ${from}` : `layers ${from} to ${to - 1}`
}

function summarizePart(
  part: PartName,
  { layers, kvHeads, headDim, graphs, features, draftHead, heads, tree }: PartManifest,
  files: Manifest['files'],
): PartSummary {
  const own = files.filter(({ path }) => path.startsWith(`${part}.`))
  const bytes = own.reduce((sum, file) => sum + file.bytes, 0)
  const slots = slotCounts.filter((count) => graphKey(count, false) in graphs)
  return { part, layers, kvHeads, headDim, slots, bytes, features, draftHead, heads, tree }
}
