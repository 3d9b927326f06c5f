import { megabytes } from '../kit/base/megabytes.ts'
import type { FormatAssessment, ModelAssessment } from '../model/bundle/assess-model.ts'
import type { MemoryNeed } from '../model/bundle/memory-need.ts'
import type { DraftSource } from '../model/draft/draft-sources.ts'

export interface ShownAssessment extends Omit<ModelAssessment, 'draft'> {
  /** With what devices could draft from: "auto" measures which of them is fastest. */
  readonly draft: ModelAssessment['draft'] & { readonly sources: readonly DraftSource[] }
}

/** What `brim model inspect` prints of a model that is not a bundle yet. */
export function assessmentText(source: string, { family, parameters, dims, ...rest }: ShownAssessment): string {
  const { sessions, context, formats, roundTrip, draft, kvHeads } = rest
  const rows = [
    ['model', `${family}, ${(parameters / 1e6).toFixed(1)} M parameters`],
    ['shape', `${dims.layers} layers of width ${dims.hidden}, ${dims.heads} heads (${kvHeads} key-value) of ${dims.headDim}`],
    ['context', `${dims.contextLimit} tokens, vocabulary ${dims.vocab}`],
    ['memory', `weights + KV of ${context} tokens: one session on the device, ${sessions} at the bridge; the programs need more`],
    ...formats.map((each) => [each.format, formatText(each)]),
    [
      'round',
      `${roundTrip.rows} rows there and back: ${kilobytes(roundTrip.fp16Bytes)} as fp16, ${kilobytes(roundTrip.int8Bytes)} as int8`,
    ],
    ['drafts', draftText(draft)],
  ]
  return [source, ...rows.map(([name, value]) => `  ${(name ?? '').padEnd(9)} ${value}`)].join('\n')
}

function formatText(format: FormatAssessment): string {
  if ('problem' in format) return `not possible: ${format.problem}`
  const { split, reason, device, bridge } = format
  return `device ${needText(device)}, bridge ${needText(bridge)}; split after layer ${split}: ${reason}`
}

const needText = ({ weightBytes, kvBytes }: MemoryNeed) => `${megabytes(weightBytes)} + ${megabytes(kvBytes)}`
const kilobytes = (bytes: number) => `${(bytes / 1e3).toFixed(1)} KB`

function draftText({ adapterSplit, sources }: ShownAssessment['draft']): string {
  const named = sources.map((source) => {
    if (source.kind === 'slm') return `the small model ${source.model}`
    if (source.kind === 'lookup') return 'prompt lookup'
    return adapterSplit === undefined ? 'the draft head, for any split' : `an adapter for a split after layer ${adapterSplit}`
  })
  return sources.some(({ kind }) => kind === 'adapter') ? named.join(', ') : `${named.join(', ')}; the checkpoint has no adapter`
}
