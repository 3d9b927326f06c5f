import { type Architecture, attentionOf, convChannels, type DeltaShape, type PartSpec, type RopeName } from './architecture.ts'
import { draftOutput, encoder } from './manifest.ts'

/** A tensor of the checkpoint and the number of rows (or values of a vector) that it contributes. */
export interface ParameterSource {
  readonly tensor: string
  readonly rows: number
  /** Where several parameters are rows of one tensor: the first row, and the rows of the tensor. */
  readonly within?: { readonly from: number; readonly of: number }
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
  /** Added to what the checkpoint has. Absent: 0. */
  readonly plus?: number
  /** Of what the checkpoint has, x, the bundle has -exp(x). Absent: false. */
  readonly negativeExponential?: boolean
  /** Where it has several dimensions. */
  readonly dims?: readonly number[]
}

/** Normalisation and projection of the features, which are added to the block's own normalised rows. */
interface FeatureInput {
  readonly norm: Vector
  readonly projection: Matrix
}

export interface AttentionBlock {
  readonly kind: 'attention'
  readonly norm: Vector | undefined
  readonly features: FeatureInput | undefined
  /** Each query is followed by the gate of what its head gives. */
  readonly gated: boolean
  readonly qkv: Matrix
  readonly qkvBias: Vector | undefined
  /** RMSNorm of queries and keys. */
  readonly queryNorm: Vector | undefined
  readonly keyNorm: Vector | undefined
  readonly output: Matrix
  readonly outputBias: Vector | undefined
  /** RMSNorm of what is added to the residual stream. */
  readonly after: Vector | undefined
}

/** Gated DeltaNet. */
export interface DeltaBlock {
  readonly kind: 'delta'
  readonly norm: Vector | undefined
  /** Queries, keys and values, then the gate of the output, update rates and decays. */
  readonly input: Matrix
  /** [channels, 1, taps] */
  readonly conv: Vector
  readonly decayBias: Vector
  readonly decayScale: Vector
  readonly outputNorm: Vector
  readonly output: Matrix
  readonly after: Vector | undefined
}

export interface Mlp {
  readonly norm: Vector | undefined
  readonly gate: Matrix
  readonly gateBias: Vector | undefined
  readonly up: Matrix
  readonly upBias: Vector | undefined
  readonly down: Matrix
  readonly downBias: Vector | undefined
  readonly after: Vector | undefined
}

/** The blocks of all Medusa heads in one matrix: head k has the rows [k · hidden, (k + 1) · hidden). */
export interface MedusaBlocks {
  readonly weight: Matrix
  readonly bias: Vector
}

/** What makes the rows of a draft head's layer: the LLM's final norm, for features, and the projection of both. */
export interface DraftInput {
  readonly norm: Vector
  readonly projection: Matrix
  readonly bias: Vector | undefined
}

/** A decoder layer; an adapter's block has no MLP. */
export interface Block {
  readonly mixer: AttentionBlock | DeltaBlock
  readonly mlp: Mlp | undefined
}

/** All weights of a part, in the order of the computation, which is also the order in the file. */
export interface PartParameters {
  readonly embedding: Matrix | undefined
  readonly draftInput: DraftInput | undefined
  readonly blocks: readonly Block[]
  readonly norm: Vector | undefined
  readonly medusa: MedusaBlocks | undefined
  readonly head: Matrix | undefined
}

const rootOf = ({ tensorRoot = 'model' }: Architecture): string => (tensorRoot === '' ? '' : `${tensorRoot}.`)

/** Names of these tensors in a checkpoint. */
export const embeddingTensor = (model: Architecture): string => `${rootOf(model)}embed_tokens.weight`
export const headTensor = 'lm_head.weight'

/** Names of the rotary tables among a part's weights. */
export const rotaryNames = (name: RopeName): { readonly cos: string; readonly sin: string } =>
  name === 'global' ? { cos: 'rope.cos', sin: 'rope.sin' } : { cos: `rope.${name}.cos`, sin: `rope.${name}.sin` }

export function partParameters(spec: PartSpec): PartParameters {
  const { part, model, layers, medusa, draftHead } = spec
  const { llm = model } = draftHead ?? {}
  const { hidden, vocab } = model.dims
  const first = part === 'input' || part === 'whole' || part === encoder || draftHead
  const last = part === 'output' || part === 'whole' || part === 'medusa'
  return {
    embedding: first ? matrix('embedding', hidden, [embeddingTensor(llm), vocab]) : undefined,
    draftInput: draftHead && draftInput(llm, draftHead.hasBias),
    blocks: spec.adapter
      ? [adapterBlock(spec)]
      : Array.from({ length: layers[1] - layers[0] }, (_, i) => decoderLayer(spec, layers[0] + i)),
    norm: last || part === encoder ? finalNorm(model) : undefined,
    medusa: medusa && {
      weight: matrix('medusa', hidden, ...medusaSources(medusa.heads, 'weight', hidden)),
      bias: vector('medusa.bias', ...medusaSources(medusa.heads, 'bias', hidden)),
    },
    head:
      last || part === draftOutput
        ? matrix('head', hidden, [model.tiedEmbeddings ? embeddingTensor(model) : headTensor, vocab])
        : undefined,
  }
}

export function listParameters(parameters: PartParameters): (Matrix | Vector)[] {
  const blocks = parameters.blocks.flatMap(({ mixer, mlp }) => [
    ...listMixer(mixer),
    ...(mlp ? [mlp.norm, mlp.gate, mlp.gateBias, mlp.up, mlp.upBias, mlp.down, mlp.downBias, mlp.after] : []),
  ])
  const { embedding, draftInput: input, norm, medusa, head } = parameters
  const all = [embedding, input?.norm, input?.projection, input?.bias, ...blocks, norm, medusa?.weight, medusa?.bias, head]
  return all.filter((parameter) => parameter !== undefined)
}

function listMixer(mixer: AttentionBlock | DeltaBlock): (Matrix | Vector | undefined)[] {
  if (mixer.kind === 'delta') {
    const { norm, input, conv, decayBias, decayScale, outputNorm, output, after } = mixer
    return [norm, input, conv, decayBias, decayScale, outputNorm, output, after]
  }
  const { norm, features, qkv, qkvBias, queryNorm, keyNorm, output, outputBias, after } = mixer
  return [norm, features?.norm, features?.projection, qkv, qkvBias, queryNorm, keyNorm, output, outputBias, after]
}

function decoderLayer({ model }: PartSpec, layer: number): Block {
  const { dims, bias, names, qkNorm } = model
  const at = `${rootOf(model)}layers.${layer}`
  const own = `layers.${layer}`
  const normOf = (name: string, tensor: string | undefined, width: number) =>
    tensor === undefined ? undefined : norm(model, `${own}.${name}`, `${at}.${tensor}`, width)
  const linear = (name: string, columns: number, hasBias: boolean, ...sources: Source[]) => ({
    weight: matrix(`${own}.${name}`, columns, ...sources.map((source) => suffixed(source, `${at}.`, 'weight'))),
    bias: hasBias ? vector(`${own}.${name}.bias`, ...sources.map((source) => suffixed(source, `${at}.`, 'bias'))) : undefined,
  })
  const [queries, keys] = [dims.heads * dims.headDim, dims.kvHeads * dims.headDim]
  const normWidth = { head: [dims.headDim, dims.headDim], all: [queries, keys] } as const
  const [queryWidth, keyWidth] = normWidth[qkNorm ?? 'head']
  const [gateRows, upRows] = apart(names.gateUp, [dims.ffn, dims.ffn])
  const gate = linear('gate', dims.hidden, bias.mlp, gateRows!)
  const up = linear('up', dims.hidden, bias.mlp, upRows!)
  const down = linear('down', dims.ffn, bias.mlp, ['mlp.down_proj', dims.hidden])
  const [before, after] = [
    normOf('norm', names.beforeAttention, dims.hidden),
    normOf('after_attention', names.afterAttention, dims.hidden),
  ]
  const attention = (): AttentionBlock => {
    const qkv = linear(
      'qkv',
      dims.hidden,
      bias.qkv,
      ...stacked(names.qkv, [model.gatedAttention ? 2 * queries : queries, keys, keys]),
    )
    const output = linear('output', queries, bias.output, ['self_attn.o_proj', dims.hidden])
    return {
      kind: 'attention',
      norm: before,
      features: undefined,
      gated: model.gatedAttention ?? false,
      qkv: qkv.weight,
      qkvBias: qkv.bias,
      queryNorm: qkNorm && normOf('query_norm', 'self_attn.q_norm', queryWidth),
      keyNorm: qkNorm && normOf('key_norm', 'self_attn.k_norm', keyWidth),
      output: output.weight,
      outputBias: output.bias,
      after,
    }
  }
  const delta = model.layers[layer]?.mixer === 'delta' ? model.delta : undefined
  return {
    mixer: delta ? deltaBlock(delta, { before, after }, { own, at: `${at}.linear_attn`, columns: dims.hidden }) : attention(),
    mlp: {
      norm: normOf('mlp_norm', names.beforeMlp, dims.hidden),
      gate: gate.weight,
      gateBias: gate.bias,
      up: up.weight,
      upBias: up.bias,
      down: down.weight,
      downBias: down.bias,
      after: normOf('after_mlp', names.afterMlp, dims.hidden),
    },
  }
}

function deltaBlock(
  shape: DeltaShape,
  { before, after }: { readonly before: Vector | undefined; readonly after: Vector | undefined },
  { own, at, columns }: { readonly own: string; readonly at: string; readonly columns: number },
): DeltaBlock {
  const [channels, heads, width] = [convChannels(shape), shape.valueHeads, shape.valueHeads * shape.valueDim]
  const inputs = { qkv: channels, z: width, b: heads, a: heads }
  const sources = Object.entries(inputs).map(([of, rows]): Source => [`${at}.in_proj_${of}.weight`, rows])
  return {
    kind: 'delta',
    norm: before,
    input: matrix(`${own}.delta_input`, columns, ...sources),
    conv: { ...vector(`${own}.conv`, [`${at}.conv1d.weight`, channels * shape.taps]), dims: [channels, 1, shape.taps] },
    decayBias: vector(`${own}.decay_bias`, [`${at}.dt_bias`, heads]),
    decayScale: { ...vector(`${own}.decay_scale`, [`${at}.A_log`, heads]), negativeExponential: true },
    outputNorm: vector(`${own}.delta_norm`, [`${at}.norm.weight`, shape.valueDim]),
    output: matrix(`${own}.delta_output`, width, [`${at}.out_proj.weight`, columns]),
    after,
  }
}

/** Parameters of several rows: from a tensor for each, or from one tensor of them all. */
const stacked = (tensors: readonly string[], rows: readonly number[]): Source[] =>
  tensors.length === 1 ? [[tensors[0]!, sum(rows)]] : tensors.map((tensor, at) => [tensor, rows[at]!])

const apart = (tensors: readonly string[], rows: readonly number[]): Source[] =>
  tensors.length === 1
    ? rows.map((own, at) => [tensors[0]!, own, { from: sum(rows.slice(0, at)), of: sum(rows) }])
    : stacked(tensors, rows)

const suffixed = ([tensor, ...rest]: Source, before: string, suffix: string): Source => [`${before}${tensor}.${suffix}`, ...rest]

const sum = (rows: readonly number[]) => rows.reduce((total, own) => total + own, 0)

const norm = ({ normsAddOne }: Architecture, name: string, tensor: string, width: number): Vector => ({
  ...vector(name, [`${tensor}.weight`, width]),
  ...(normsAddOne && { plus: 1 }),
})

const finalNorm = (model: Architecture): Vector => norm(model, 'norm', `${rootOf(model)}norm`, model.dims.hidden)

function draftInput(llm: Architecture, hasBias: boolean): DraftInput {
  const { hidden } = llm.dims
  return {
    norm: finalNorm(llm),
    projection: matrix('draft.input', 2 * hidden, ['fc.weight', hidden]),
    bias: hasBias ? vector('draft.input.bias', ['fc.bias', hidden]) : undefined,
  }
}

/** Attention as in the plain decoder, of tensors without a prefix. */
function adapterBlock(spec: PartSpec): Block {
  const { hidden } = spec.model.dims
  const { heads, kvHeads, headDim } = attentionOf(spec)
  const [queries, keys] = [heads * headDim, kvHeads * headDim]
  const mixer: AttentionBlock = {
    kind: 'attention',
    gated: false,
    norm: vector('adapter.norm', ['norm.weight', hidden]),
    features: spec.adapter?.features
      ? {
          norm: vector('adapter.feature_norm', ['feature_norm.weight', hidden]),
          projection: matrix('adapter.feature', hidden, ['feature_proj.weight', hidden]),
        }
      : undefined,
    qkv: matrix('adapter.qkv', hidden, ['q_proj.weight', queries], ['k_proj.weight', keys], ['v_proj.weight', keys]),
    qkvBias: undefined,
    queryNorm: undefined,
    keyNorm: undefined,
    output: matrix('adapter.output', queries, ['o_proj.weight', hidden]),
    outputBias: undefined,
    after: undefined,
  }
  return { mixer, mlp: undefined }
}

function medusaSources(heads: number, suffix: string, hidden: number): (readonly [string, number])[] {
  return Array.from({ length: heads }, (_, head) => [`blocks.${head}.${suffix}`, hidden] as const)
}

type Source = readonly [tensor: string, rows: number, within?: ParameterSource['within']]

function matrix(name: string, columns: number, ...sources: Source[]): Matrix {
  return { name, columns, rows: sum(sources.map(([, rows]) => rows)), sources: toSources(sources) }
}

function vector(name: string, ...sources: Source[]): Vector {
  return { name, length: sum(sources.map(([, rows]) => rows)), sources: toSources(sources) }
}

function toSources(sources: readonly Source[]): ParameterSource[] {
  return sources.map(([tensor, rows, within]) => ({ tensor, rows, ...(within && { within }) }))
}
