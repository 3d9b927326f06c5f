import type { Dims, Format, PartName } from './manifest.ts'

/** Scaling of rotary frequencies, as config.json names it. It goes into the tables, so graphs know nothing of it. */
export type RopeScaling =
  | { readonly kind: 'none' }
  | { readonly kind: 'linear'; readonly factor: number }
  | {
      readonly kind: 'llama3'
      readonly factor: number
      readonly lowFreqFactor: number
      readonly highFreqFactor: number
      /** Positions that the model knew before it was stretched. */
      readonly originalPositions: number
    }

export interface Rope {
  readonly theta: number
  readonly scaling: RopeScaling
}

/** One attention block. */
export interface AttentionShape {
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
}

/** What a family makes of config.json: a decoder of RMSNorm, rotary grouped-query attention and a gated SiLU MLP. */
export interface Architecture {
  readonly family: string
  readonly dims: Dims
  readonly epsilon: number
  readonly rope: Rope
  readonly bias: { readonly qkv: boolean; readonly output: boolean; readonly mlp: boolean }
  /** The head's matrix is the embedding's. */
  readonly tiedEmbeddings: boolean
}

/**
 * HAT's Λ: f = s + o_proj(attention(x)), x = RMSNorm(s), one block without MLP. With features (EAGLE, arXiv:2401.15077) row
 * i also reads the deep state g of the position before, zero where unknown: x = RMSNorm(s) + W·RMSNorm(g). Trained for one split.
 */
export interface Adapter extends AttentionShape {
  readonly split: number
  readonly features: boolean
  readonly hidden: number
  readonly epsilon: number
  readonly rope: Rope
}

/**
 * Medusa heads (arXiv:2401.10774): head k is the LLM's own head over f + SiLU(W_k·f + b_k), f the deep state after the
 * LLM's final normalisation.
 */
export interface Medusa {
  readonly heads: number
  /** Paths of ranks, parents before their children. */
  readonly tree: readonly (readonly number[])[]
}

export interface WeightFormat {
  readonly name: Format
  /** Of MatMulNBits, int4 only: 4 computes in int8 (fast), 1 in fp32 (exact). */
  readonly accuracyLevel: 1 | 4
}

/** Weights of one block along a row of an int4 matrix share a scale. */
export const int4BlockSize = 32

/** One part of a model: what its graphs and its weights file follow from. */
export interface PartSpec {
  readonly part: PartName
  readonly model: Architecture
  readonly format: WeightFormat
  /** Decoder layers [from, to) of the whole model; empty for `output` and `medusa`. */
  readonly layers: readonly [number, number]
  /** For stages of `middle` only: layers of it lie before this one. */
  readonly continues?: boolean
  /** For the parts `adapter` and `adapter-paper` only. */
  readonly adapter?: Adapter
  /** For the part `medusa` only. */
  readonly medusa?: Medusa
}

/** The attention blocks of a part: how many, and their common shape. */
export function attentionOf(spec: PartSpec): AttentionShape & { readonly blocks: number; readonly rope: Rope } {
  if (spec.adapter) return { ...spec.adapter, blocks: 1 }
  const { heads, kvHeads, headDim } = spec.model.dims
  return { heads, kvHeads, headDim, rope: spec.model.rope, blocks: spec.layers[1] - spec.layers[0] }
}
