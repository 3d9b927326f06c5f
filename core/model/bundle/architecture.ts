import type { Dims, Format, PartName, Pooling } from './manifest.ts'

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
  | {
      readonly kind: 'yarn'
      readonly factor: number
      readonly originalPositions: number
      readonly betaFast: number
      readonly betaSlow: number
      /** Whether the borders of the ramp are whole dimensions. */
      readonly truncate: boolean
    }
  /** A factor for each frequency, of which a model has two sets: for short contexts and for long ones. */
  | { readonly kind: 'factors'; readonly factors: readonly number[] }

export interface Rope {
  readonly theta: number
  readonly scaling: RopeScaling
  /** Elements at the start of each head that are rotated. Absent: all. */
  readonly rotated?: number
  /** Of the cosines and sines. Absent: 1. */
  readonly magnitude?: number
}

export interface AttentionShape {
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
}

/** Rotary tables of a model: most have one. */
export const ropeNames = ['global', 'local'] as const
export type RopeName = (typeof ropeNames)[number]

/** What differs between the layers of a model. */
export interface LayerShape {
  readonly rope: RopeName | undefined
  /** A row attends to so many positions, its own included. Undefined: to all before it. */
  readonly window: number | undefined
  /** What mixes the rows: attention, or Gated DeltaNet, which has neither rope nor window. */
  readonly mixer: 'attention' | 'delta'
}

/** Gated DeltaNet (arXiv:2412.06464): a layer whose memory is a state of fixed size, after a causal convolution. */
export interface DeltaShape {
  readonly keyHeads: number
  /** A multiple of `keyHeads`. */
  readonly valueHeads: number
  readonly keyDim: number
  readonly valueDim: number
  /** Rows that the convolution reads: the row itself and those before it. */
  readonly taps: number
}

/** Channels of the convolution: queries, keys and values. */
export const convChannels = ({ keyHeads, valueHeads, keyDim, valueDim }: DeltaShape): number =>
  2 * keyHeads * keyDim + valueHeads * valueDim

/** Names of a layer's tensors in the checkpoint, below `model.layers.N.`; undefined where the family has none. */
export interface LayerNames {
  /** RMSNorm of the rows that attention and MLP read. */
  readonly beforeAttention: string | undefined
  readonly beforeMlp: string | undefined
  /** RMSNorm of what they add to the residual stream. */
  readonly afterAttention: string | undefined
  readonly afterMlp: string | undefined
  /** Queries, keys and values, or one tensor of them all. */
  readonly qkv: readonly string[]
  /** Gate and up, or one tensor of both. */
  readonly gateUp: readonly string[]
}

/** A decoder of RMSNorm, grouped-query attention and gated MLP, as config.json describes it. */
export interface Architecture {
  readonly family: string
  readonly dims: Dims
  readonly epsilon: number
  readonly ropes: Readonly<Record<RopeName, Rope>>
  readonly layers: readonly LayerShape[]
  readonly names: LayerNames
  readonly bias: { readonly qkv: boolean; readonly output: boolean; readonly mlp: boolean }
  /** RMSNorm of queries and keys: of each head, or of all together. */
  readonly qkNorm: 'head' | 'all' | undefined
  /** The weights of RMSNorm are stored as their distance to 1. */
  readonly normsAddOne: boolean
  readonly activation: 'silu' | 'gelu-tanh'
  readonly scales: {
    /** Of embedded rows. */
    readonly embedding: number
    /** Of what attention and MLP add to the residual stream. */
    readonly residual: number
    /** Of the scores of attention. */
    readonly attention: number
    readonly logits: number
  }
  /** The head uses the embedding's matrix. */
  readonly tiedEmbeddings: boolean
  /** What the names of the decoder's tensors begin with. Absent: model. */
  readonly tensorRoot?: string
  /** A sigmoid gates what attention gives: projected with the queries, head by head. Absent: false. */
  readonly gatedAttention?: boolean
  /** Of the layers that are Gated DeltaNet. */
  readonly delta?: DeltaShape
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
 * A draft head as EAGLE publishes them (arXiv:2401.15077): x = W·[e; f] + b, then one decoder layer without the norm before its
 * attention, where e is the token's embedding and f the LLM's state of the position before it, after the LLM's final norm. What
 * the layer gives is the guess of the next f: the LLM's head is applied to it as it is.
 */
export interface DraftHead {
  /** The layer, with the names of the head's tensors; vocabulary and context are the LLM's. */
  readonly layer: Architecture
  /** Of W. */
  readonly hasBias: boolean
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
  /** Decoder layers [from, to) of the whole model; empty for `output`, `medusa` and `draft-output`. */
  readonly layers: readonly [number, number]
  /** For the parts `adapter` and `adapter-paper`. */
  readonly adapter?: Adapter
  /** For an `adapter` that is a draft head, whose layer is in place of `model`. */
  readonly draftHead?: { readonly llm: Architecture; readonly hasBias: boolean }
  /** For the part `medusa`. */
  readonly medusa?: Medusa
  /** For the part `encoder`. */
  readonly pooling?: Pooling
}

/** The number of a part's blocks, and the common shape of those that attend. */
export function attentionOf(spec: PartSpec): AttentionShape & { readonly blocks: number } {
  if (spec.adapter) return { ...spec.adapter, blocks: 1 }
  const { heads, kvHeads, headDim } = spec.model.dims
  return { heads, kvHeads, headDim, blocks: spec.layers[1] - spec.layers[0] }
}

export function layersOf({ adapter, model, layers }: PartSpec): readonly LayerShape[] {
  return adapter ? [{ rope: 'global', window: undefined, mixer: 'attention' }] : model.layers.slice(...layers)
}

/** Number and shape of a part's layers that are Gated DeltaNet; undefined if there are none. */
export function recurrentOf(spec: PartSpec): (DeltaShape & { readonly layers: number }) | undefined {
  const layers = layersOf(spec).filter(({ mixer }) => mixer === 'delta').length
  return layers > 0 && spec.model.delta ? { ...spec.model.delta, layers } : undefined
}

/** The rotary tables that a part's layers read. */
export function ropesOf(spec: PartSpec): readonly (readonly [name: RopeName, rope: Rope])[] {
  const used = new Set(layersOf(spec).map(({ rope }) => rope))
  return ropeNames.filter((name) => used.has(name)).map((name) => [name, spec.adapter?.rope ?? spec.model.ropes[name]])
}

/** The window of those of a part's layers that have one: in a model they have the same. */
export const windowOf = (spec: PartSpec): number | undefined => layersOf(spec).find(({ window }) => window !== undefined)?.window
