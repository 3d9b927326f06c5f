import type { ModelPart } from './model-shape.ts'

/** What computes: a GPU, several of them as one, or a board. Rates are those that it reaches, not those of its data sheet. */
export interface Hardware {
  readonly name: string
  readonly memoryBytes: number
  readonly bytesPerS: number
  readonly flopPerS: number
  /** Seconds per layer that no size of a step reduces: launches, and synchronisation of several GPUs. */
  readonly layerS: number
  /** Between its memory and the host's. */
  readonly hostBytesPerS: number
  readonly source: string
}

/** What one step computes. */
export interface StepWork {
  /** New positions of all streams. */
  readonly rows: number
  /** KV positions that are read: the sum of the streams' contexts. */
  readonly kvPositions: number
  /** Σ rows × positions that each attends to. */
  readonly attended: number
}

export const noWork: StepWork = { rows: 0, kvPositions: 0, attended: 0 }

/** The work of `rows` rows after `context` positions of one stream. */
export function workOf(rows: number, context: number): StepWork {
  return { rows, kvPositions: context + rows, attended: rows * context + (rows * (rows + 1)) / 2 }
}

export function addWork(a: StepWork, b: StepWork): StepWork {
  return { rows: a.rows + b.rows, kvPositions: a.kvPositions + b.kvPositions, attended: a.attended + b.attended }
}

/**
 * Seconds of a step: the roofline of the matrices (weights once, FLOP per row) and of the attention (KV once, FLOP per row and
 * position), one after the other, and the time per layer that nothing reduces.
 */
export function stepS(
  { bytesPerS, flopPerS, layerS }: Hardware,
  part: ModelPart,
  { rows, kvPositions, attended }: StepWork,
): number {
  if (rows === 0) return 0
  const matricesS = Math.max(part.weightBytes / bytesPerS, (rows * part.flopPerRow) / flopPerS)
  const attentionS = Math.max(
    (kvPositions * part.kvBytesPerPosition) / bytesPerS,
    (attended * part.flopPerRowAndPosition) / flopPerS,
  )
  return part.layers * layerS + matricesS + attentionS
}

/** Seconds of a head: weights once, FLOP per chosen token. */
export function headS(
  { bytesPerS, flopPerS }: Hardware,
  head: Pick<ModelPart, 'weightBytes' | 'flopPerRow'>,
  rows: number,
): number {
  return rows === 0 ? 0 : Math.max(head.weightBytes / bytesPerS, (rows * head.flopPerRow) / flopPerS)
}
