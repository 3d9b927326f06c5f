/** A decoder-only transformer, as far as its time and memory depend on it. */
export interface TransformerShape {
  readonly name: string
  readonly layers: number
  readonly hidden: number
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  /** Width of the feed-forward layers. */
  readonly feedForward: number
  /** Matrices of a feed-forward layer: 3 where it is gated, else 2. */
  readonly feedForwardMatrices: number
  readonly vocabulary: number
  /** Embedding and head are one matrix. */
  readonly tiesEmbedding: boolean
  readonly bytesPerWeight: number
  readonly bytesPerKvValue: number
  /** Where the figures are from. */
  readonly source: string
}

/** Some layers of a model, with or without its ends: what one machine computes. */
export interface ModelPart {
  readonly layers: number
  /** Read from memory in every step. */
  readonly weightBytes: number
  /** Multiply-adds count twice. */
  readonly flopPerRow: number
  /** Of the attention: per row and position that it attends to. */
  readonly flopPerRowAndPosition: number
  readonly kvBytesPerPosition: number
  /** Of the hidden states that several GPUs add up, twice in each layer. */
  readonly summedBytesPerRow: number
}

/** FLOP and bytes of the head: it is computed for the rows whose tokens are chosen. */
export function headOf({ hidden, vocabulary, bytesPerWeight }: TransformerShape): Pick<ModelPart, 'weightBytes' | 'flopPerRow'> {
  return { weightBytes: hidden * vocabulary * bytesPerWeight, flopPerRow: 2 * hidden * vocabulary }
}

/** Layers from .. to − 1, without embedding (a look-up) and head. */
export function layersOf(shape: TransformerShape, from: number, to: number): ModelPart {
  const { hidden, heads, kvHeads, headDim, feedForward, feedForwardMatrices, bytesPerWeight, bytesPerKvValue } = shape
  const layers = to - from
  const weights = layers * (hidden * headDim * (2 * heads + 2 * kvHeads) + feedForwardMatrices * hidden * feedForward)
  return {
    layers,
    weightBytes: weights * bytesPerWeight,
    flopPerRow: 2 * weights,
    flopPerRowAndPosition: 4 * layers * heads * headDim,
    kvBytesPerPosition: 2 * layers * kvHeads * headDim * bytesPerKvValue,
    summedBytesPerRow: 2 * layers * hiddenStateBytes(shape),
  }
}

export const wholeModel = (shape: TransformerShape): ModelPart => layersOf(shape, 0, shape.layers)

/** Bytes of one hidden state in fp16: A of HAT Eq. 3. */
export const hiddenStateBytes = ({ hidden }: TransformerShape): number => 2 * hidden
