import { type AttentionShape, attentionOf, type PartSpec } from './architecture.ts'

/** A tensor of the checkpoint and the number of rows (or values of a vector) that it contributes. */
export interface ParameterSource {
  readonly tensor: string
  readonly rows: number
}

/** [rows, columns] row-major, as Hugging Face stores linear layers (out, in): the sources concatenated by rows. */
export interface Matrix {
  readonly name: string
  readonly rows: number
  readonly columns: number
  readonly sources: readonly ParameterSource[]
}

/** [length], always float32 in a bundle, because vectors are small. */
export interface Vector {
  readonly name: string
  readonly length: number
  readonly sources: readonly ParameterSource[]
}

/** Normalisation and projection of the features, which are added to the block's own normalised rows. */
interface FeatureInput {
  readonly norm: Vector
  readonly projection: Matrix
}

export interface AttentionBlock {
  readonly norm: Vector
  readonly features: FeatureInput | undefined
  readonly qkv: Matrix
  readonly qkvBias: Vector | undefined
  readonly output: Matrix
  readonly outputBias: Vector | undefined
}

export interface Mlp {
  readonly norm: Vector
  readonly gate: Matrix
  readonly gateBias: Vector | undefined
  readonly up: Matrix
  readonly upBias: Vector | undefined
  readonly down: Matrix
  readonly downBias: Vector | undefined
}

/** The blocks of all Medusa heads in one matrix: head k has the rows [k · hidden, (k + 1) · hidden). */
export interface MedusaBlocks {
  readonly weight: Matrix
  readonly bias: Vector
}

/** A decoder layer; an adapter's block has no MLP. */
export interface Block {
  readonly attention: AttentionBlock
  readonly mlp: Mlp | undefined
}

/** All weights of a part, in the order of the computation, which is also the order in the file. */
export interface PartParameters {
  readonly embedding: Matrix | undefined
  readonly blocks: readonly Block[]
  readonly norm: Vector | undefined
  readonly medusa: MedusaBlocks | undefined
  readonly head: Matrix | undefined
}

/** Names of these tensors in checkpoints of every family. */
export const embeddingTensor = 'model.embed_tokens.weight'
export const headTensor = 'lm_head.weight'

/** Names of the rotary tables among a part's weights. */
export const rotaryNames = { cos: 'rope.cos', sin: 'rope.sin' } as const

export function partParameters(spec: PartSpec): PartParameters {
  const { part, model, layers, medusa } = spec
  const { hidden, vocab } = model.dims
  const first = part === 'input' || part === 'whole'
  const last = part === 'output' || part === 'whole' || part === 'medusa'
  return {
    embedding: first ? matrix('embedding', hidden, [embeddingTensor, vocab]) : undefined,
    blocks: spec.adapter
      ? [adapterBlock(spec)]
      : Array.from({ length: layers[1] - layers[0] }, (_, i) => decoderLayer(spec, layers[0] + i)),
    norm: last ? vector('norm', ['model.norm.weight', hidden]) : undefined,
    medusa: medusa && {
      weight: matrix('medusa', hidden, ...medusaSources(medusa.heads, 'weight', hidden)),
      bias: vector('medusa.bias', ...medusaSources(medusa.heads, 'bias', hidden)),
    },
    head: last ? matrix('head', hidden, [model.tiedEmbeddings ? embeddingTensor : headTensor, vocab]) : undefined,
  }
}

/** Every matrix and vector of a part, in order. */
export function listParameters(parameters: PartParameters): (Matrix | Vector)[] {
  const blocks = parameters.blocks.flatMap(({ attention: a, mlp }) => [
    ...[a.norm, a.features?.norm, a.features?.projection, a.qkv, a.qkvBias, a.output, a.outputBias],
    ...(mlp ? [mlp.norm, mlp.gate, mlp.gateBias, mlp.up, mlp.upBias, mlp.down, mlp.downBias] : []),
  ])
  const { embedding, norm, medusa, head } = parameters
  const all = [embedding, ...blocks, norm, medusa?.weight, medusa?.bias, head]
  return all.filter((parameter) => parameter !== undefined)
}

function decoderLayer(spec: PartSpec, layer: number): Block {
  const { dims, bias } = spec.model
  const at = `model.layers.${layer}`
  const linear = (name: string, tensor: string, rows: number, columns: number, hasBias: boolean) => ({
    weight: matrix(`layers.${layer}.${name}`, columns, [`${at}.mlp.${tensor}.weight`, rows]),
    bias: hasBias ? vector(`layers.${layer}.${name}.bias`, [`${at}.mlp.${tensor}.bias`, rows]) : undefined,
  })
  const gate = linear('gate', 'gate_proj', dims.ffn, dims.hidden, bias.mlp)
  const up = linear('up', 'up_proj', dims.ffn, dims.hidden, bias.mlp)
  const down = linear('down', 'down_proj', dims.hidden, dims.ffn, bias.mlp)
  return {
    attention: attentionBlock(`layers.${layer}`, `${at}.input_layernorm`, `${at}.self_attn.`, dims.hidden, dims, bias),
    mlp: {
      norm: vector(`layers.${layer}.mlp_norm`, [`${at}.post_attention_layernorm.weight`, dims.hidden]),
      gate: gate.weight,
      gateBias: gate.bias,
      up: up.weight,
      upBias: up.bias,
      down: down.weight,
      downBias: down.bias,
    },
  }
}

function adapterBlock(spec: PartSpec): Block {
  const { hidden } = spec.model.dims
  const plain = attentionBlock('adapter', 'norm', '', hidden, attentionOf(spec), { qkv: false, output: false })
  const features = {
    norm: vector('adapter.feature_norm', ['feature_norm.weight', hidden]),
    projection: matrix('adapter.feature', hidden, ['feature_proj.weight', hidden]),
  }
  return { attention: spec.adapter?.features ? { ...plain, features } : plain, mlp: undefined }
}

function medusaSources(heads: number, suffix: string, hidden: number): (readonly [string, number])[] {
  return Array.from({ length: heads }, (_, head) => [`blocks.${head}.${suffix}`, hidden] as const)
}

function attentionBlock(
  name: string,
  norm: string,
  projections: string,
  hidden: number,
  shape: AttentionShape,
  bias: { qkv: boolean; output: boolean },
): AttentionBlock {
  const queries = shape.heads * shape.headDim
  const keys = shape.kvHeads * shape.headDim
  const rows = { q: queries, k: keys, v: keys }
  const qkv = (suffix: string) => Object.entries(rows).map(([p, count]) => [`${projections}${p}_proj.${suffix}`, count] as const)
  return {
    norm: vector(`${name}.norm`, [`${norm}.weight`, hidden]),
    features: undefined,
    qkv: matrix(`${name}.qkv`, hidden, ...qkv('weight')),
    qkvBias: bias.qkv ? vector(`${name}.qkv.bias`, ...qkv('bias')) : undefined,
    output: matrix(`${name}.output`, queries, [`${projections}o_proj.weight`, hidden]),
    outputBias: bias.output ? vector(`${name}.output.bias`, [`${projections}o_proj.bias`, hidden]) : undefined,
  }
}

function matrix(name: string, columns: number, ...sources: (readonly [tensor: string, rows: number])[]): Matrix {
  return { name, columns, rows: sources.reduce((sum, [, rows]) => sum + rows, 0), sources: toSources(sources) }
}

function vector(name: string, ...sources: (readonly [tensor: string, rows: number])[]): Vector {
  return { name, length: sources.reduce((sum, [, rows]) => sum + rows, 0), sources: toSources(sources) }
}

function toSources(sources: (readonly [string, number])[]): ParameterSource[] {
  return sources.map(([tensor, rows]) => ({ tensor, rows }))
}
