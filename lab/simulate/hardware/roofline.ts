import { hiddenStateBytes, type ModelPart, type TransformerShape } from './model-shape.ts'

/** What computes: a GPU, several of them as one, or a board. Rates are those that it reaches, not those of its data sheet. */
export interface Hardware {
  readonly name: string
  readonly memoryBytes: number
  readonly bytesPerS: number
  readonly flopPerS: number
  /** In rows whose tokens are chosen; absent: as in others. */
  readonly decodeFlopPerS?: number
  /** Seconds per layer that no size of a step reduces: launches, and synchronisation of several GPUs. */
  readonly layerS: number
  /** Likewise per layer and stream of the step: 0 where one kernel reads the KV of all streams, as on GPUs. */
  readonly streamS: number
  /** Between its memory and the host's. */
  readonly hostBytesPerS: number
  /** Between GPUs, each way. */
  readonly peerBytesPerS: number
  /** GPUs that it is made of: after attention and feed-forward of each layer they add up what each of them has. */
  readonly gpus: number
  readonly source: string
}

/** What one step computes. */
export interface StepWork {
  readonly streams: number
  /** New positions of all streams. */
  readonly rows: number
  /** KV positions that are read: the sum of the streams' contexts. */
  readonly kvPositions: number
  /** Σ rows × positions that each attends to. */
  readonly attended: number
  /** Of the rows, those whose tokens are chosen; absent: none. */
  readonly chosen?: number
}

/**
 * Seconds of an exchange between two GPUs that no size reduces: NCCL's latency on PCIe, two steps of about 10 µs for the
 * kernels and the signals.
 */
const exchangeS = 20e-6

/** What a framework reaches of a machine: shares of its rates, above 0, and what it adds. */
export interface Reached {
  readonly memory: number
  readonly compute: number
  /** Of the compute, in rows whose tokens are chosen: few rows leave most of a GPU's matrix units idle. */
  readonly decode: number
  /** For each layer of a step: launches that do not run ahead of the GPU. */
  readonly layerMs: number
}

export function reaching(hardware: Hardware, { memory, compute, decode, layerMs }: Reached): Hardware {
  if (memory === 1 && compute === 1 && decode === 1 && layerMs === 0) return hardware
  const flopPerS = compute * hardware.flopPerS
  const layerS = hardware.layerS + layerMs / 1_000
  return { ...hardware, bytesPerS: memory * hardware.bytesPerS, flopPerS, decodeFlopPerS: decode * flopPerS, layerS }
}

/** GPUs of one kind that compute each layer together (tensor parallel). @param count >= 1 */
export function together(gpu: Hardware, count: number): Hardware {
  if (count === 1) return gpu
  return {
    ...gpu,
    name: `${count} × ${gpu.name}`,
    memoryBytes: count * gpu.memoryBytes,
    bytesPerS: count * gpu.bytesPerS,
    flopPerS: count * gpu.flopPerS,
    ...(gpu.decodeFlopPerS !== undefined && { decodeFlopPerS: count * gpu.decodeFlopPerS }),
    layerS: gpu.layerS + 2 * exchangeS,
    hostBytesPerS: count * gpu.hostBytesPerS,
    gpus: count,
  }
}

/** Seconds in which a pipeline stage hands `rows` hidden states to the next one. */
export const handOverS = ({ peerBytesPerS }: Hardware, shape: TransformerShape, rows: number): number =>
  exchangeS + (rows * hiddenStateBytes(shape)) / peerBytesPerS

export const noWork: StepWork = { streams: 0, rows: 0, kvPositions: 0, attended: 0 }

/** The work of `rows` rows after `context` positions of one stream. */
export function workOf(rows: number, context: number): StepWork {
  return { streams: 1, rows, kvPositions: context + rows, attended: rows * context + (rows * (rows + 1)) / 2 }
}

export function addWork(a: StepWork, b: StepWork): StepWork {
  return {
    streams: a.streams + b.streams,
    rows: a.rows + b.rows,
    kvPositions: a.kvPositions + b.kvPositions,
    attended: a.attended + b.attended,
  }
}

/**
 * Seconds of a step: the roofline of the matrices (weights once, FLOP per row) and of the attention (KV once, FLOP per row and
 * position), one after the other, the sums of several GPUs, and the time per layer that nothing reduces.
 */
export function stepS(
  { bytesPerS, flopPerS, decodeFlopPerS = flopPerS, layerS, streamS, gpus, peerBytesPerS }: Hardware,
  part: ModelPart,
  { streams, rows, kvPositions, attended, chosen = 0 }: StepWork,
): number {
  if (rows === 0) return 0
  const rowsS = (rows - chosen) / flopPerS + chosen / decodeFlopPerS
  const matricesS = Math.max(part.weightBytes / bytesPerS, part.flopPerRow * rowsS)
  const attentionS = Math.max(
    (kvPositions * part.kvBytesPerPosition) / bytesPerS,
    (attended * part.flopPerRowAndPosition) / flopPerS,
  )
  // In a ring, each GPU sends and receives 2·(n − 1)/n of what is summed.
  const sumsS = (rows * part.summedBytesPerRow * 2 * (gpus - 1)) / gpus / peerBytesPerS
  return part.layers * (layerS + streams * streamS) + matricesS + attentionS + sumsS
}

/** Seconds of a head: weights once, FLOP per chosen token. */
export function headS(
  { bytesPerS, flopPerS }: Hardware,
  head: Pick<ModelPart, 'weightBytes' | 'flopPerRow'>,
  rows: number,
): number {
  return rows === 0 ? 0 : Math.max(head.weightBytes / bytesPerS, (rows * head.flopPerRow) / flopPerS)
}
