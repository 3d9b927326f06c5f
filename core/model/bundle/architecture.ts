import type { Dims, Format, PartName } from './manifest.ts'

/** Scaling of rotary frequencies, by its name in config.json. It is applied to the tables, so graphs do not depend on it. */
export type RopeScaling =
  | { readonly kind: 'none' }
  | { readonly kind: 'linear'; readonly factor: number }
  | {
      readonly kind: 'llama3'
      readonly factor: number
      readonly lowFreqFactor: number
      readonly highFreqFactor: number
      /** Context length before the scaling. */
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

/** A decoder of RMSNorm, rotary grouped-query attention and gated SiLU MLP, as config.json describes it. */
export interface Architecture {
  readonly family: string
  readonly dims: Dims
  readonly epsilon: number
  readonly rope: Rope
  readonly bias: { readonly qkv: boolean; readonly output: boolean; readonly mlp: boolean }
  /** The head uses the embedding's matrix. */
  readonly tiedEmbeddings: boolean
}

/**
 * HAT's Λ: one attention block without MLP, f = s + o_proj(attention(x)), x = RMSNorm(s). It is trained for one split.
 * With features (EAGLE, arXiv:2401.15077), x = RMSNorm(s) + W·RMSNorm(g), where g is the deep state of the position before,
 * or zero where it is unknown.
 */
export interface Adapter extends AttentionShape {
  readonly split: number
  readonly features: boolean
  readonly hidden: number
  readonly epsilon: number
  readonly rope: Rope
}

/**
 * Medusa heads (arXiv:2401.10774): head k applies the LLM's head to f + SiLU(W_k·f + b_k), where f is the deep state after
 * the LLM's final normalisation.
 */
export interface Medusa {
  readonly heads: number
  /** Paths of token ranks; parents come before their children. */
  readonly tree: readonly (readonly number[])[]
}

export interface WeightFormat {
  readonly name: Format
  /** MatMulNBits' accuracy level, for int4 and int8: 4 computes in int8 (fast), 1 in fp32 (exact). */
  readonly accuracyLevel: 1 | 4
  /** Consecutive weights of a row of int4 or int8 that share one scale. */
  readonly blockSize: Int4BlockSize
  /** For int4: blocks have zero points, as in AWQ and GPTQ. */
  readonly zeroPoints: boolean
}

/** The library has its fastest kernels for these. */
export const int4BlockSizes = [32, 64, 128] as const
export type Int4BlockSize = (typeof int4BlockSizes)[number]

/** The closest to the model, and the only one of bundles that do not name another. */
export const defaultInt4BlockSize = 32

/** One part of a model; its graphs and its weights file follow from these values. */
export interface PartSpec {
  readonly part: PartName
  readonly model: Architecture
  readonly format: WeightFormat
  /** Of embedding and head. Absent: as `format`. */
  readonly vocabularyFormat?: WeightFormat
  /** Decoder layers [from, to) of the whole model; empty for `output` and `medusa`. */
  readonly layers: readonly [number, number]
  /** For the parts `adapter` and `adapter-paper`. */
  readonly adapter?: Adapter
  /** For the part `medusa`. */
  readonly medusa?: Medusa
}

/** The number and the common shape of a part's attention blocks. */
export function attentionOf(spec: PartSpec): AttentionShape & { readonly blocks: number; readonly rope: Rope } {
  if (spec.adapter) return { ...spec.adapter, blocks: 1 }
  const { heads, kvHeads, headDim } = spec.model.dims
  return { heads, kvHeads, headDim, rope: spec.model.rope, blocks: spec.layers[1] - spec.layers[0] }
}
