import { z } from 'zod'
import '../../../kit/base/plain-messages.ts'
import { BrimError } from '../../../kit/base/errors.ts'
import type { Architecture, LayerNames, LayerShape } from '../architecture.ts'
import type { Dims } from '../manifest.ts'
import { unsupported } from './family.ts'
import { RopeConfig, readRope } from './rope-config.ts'

const count = z.int().min(1)

/** Fields of config.json that all families share. Defaults are those of transformers. */
export const DecoderConfig = z.looseObject({
  hidden_size: count,
  intermediate_size: count,
  /** The bound protects memory from a hostile file; real models have about a hundred layers. */
  num_hidden_layers: count.max(1_000),
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  vocab_size: count,
  max_position_embeddings: count.default(2048),
  hidden_act: z.string().default('silu'),
  rms_norm_eps: z.number().positive().default(1e-6),
  sliding_window: z.int().min(1).nullish(),
  layer_types: z.array(z.enum(['full_attention', 'sliding_attention'])).nullish(),
  /** Some families: the context before the scaling of rope. */
  original_max_position_embeddings: count.nullish(),
  rope_theta: z.number().positive().nullish(),
  rope_scaling: RopeConfig.nullish(),
  /** transformers 5: rope_theta and rope_scaling together. */
  rope_parameters: RopeConfig.nullish(),
  partial_rotary_factor: z.number().nullish(),
  tie_word_embeddings: z.boolean().default(false),
})
export type DecoderConfig = z.infer<typeof DecoderConfig>

/** @throws BrimError CHECKPOINT_INVALID naming the invalid fields */
export function parseDecoderConfig<S extends z.ZodType>(schema: S, config: unknown): z.infer<S> {
  const parsed = schema.safeParse(config)
  if (parsed.success) return parsed.data
  const fields = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'the document'}: ${issue.message}`)
  throw new BrimError('CHECKPOINT_INVALID', `config.json does not describe a model: ${fields.join('; ')}`, {
    hint: 'compare it with the config.json of the original model',
  })
}

/** Tensors of most families. */
const plainNames: LayerNames = {
  beforeAttention: 'input_layernorm',
  beforeMlp: 'post_attention_layernorm',
  afterAttention: undefined,
  afterMlp: undefined,
  qkv: ['self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj'],
  gateUp: ['mlp.gate_proj', 'mlp.up_proj'],
}

/** What a family has that Llama has not. */
interface Departures {
  readonly bias?: Partial<Architecture['bias']>
  readonly names?: Partial<LayerNames>
  readonly layer?: (layer: number) => Partial<LayerShape>
  readonly ropes?: Partial<Architecture['ropes']>
  readonly scales?: Partial<Architecture['scales']>
  readonly qkNorm?: Architecture['qkNorm']
  readonly normsAddOne?: boolean
  readonly activation?: Architecture['activation']
}

/** A decoder as Llama's, with what its family has besides. @throws BrimError ARCHITECTURE_UNSUPPORTED, CHECKPOINT_INVALID */
export function describeDecoder(family: string, config: DecoderConfig, own: Departures = {}): Architecture {
  const { activation = 'silu', layer = () => ({}) } = own
  const dims = readDims(config)
  if (config.hidden_act !== names[activation])
    throw unsupported(`the activation ${config.hidden_act} (only ${names[activation]})`)
  const rope = own.ropes?.global ?? readRope(config, dims)
  return {
    family,
    dims,
    epsilon: config.rms_norm_eps,
    ropes: { global: rope, local: own.ropes?.local ?? rope },
    layers: Array.from({ length: dims.layers }, (_, at) => ({
      rope: 'global',
      window: undefined,
      mixer: 'attention',
      ...layer(at),
    })),
    names: { ...plainNames, ...own.names },
    bias: { qkv: false, output: false, mlp: false, ...own.bias },
    qkNorm: own.qkNorm,
    normsAddOne: own.normsAddOne ?? false,
    activation,
    scales: { embedding: 1, residual: 1, attention: dims.headDim ** -0.5, logits: 1, ...own.scales },
    tiedEmbeddings: config.tie_word_embeddings,
  }
}

const names = { silu: 'silu', 'gelu-tanh': 'gelu_pytorch_tanh' } as const

/**
 * Which layers attend to a window only, by `layer_types` or the family's own rule.
 * @throws BrimError CHECKPOINT_INVALID
 */
export function windows(
  config: DecoderConfig,
  rule: (layer: number) => boolean,
): (layer: number) => { window: number | undefined } {
  const { layer_types: types, sliding_window: window } = config
  if (types && types.length !== config.num_hidden_layers)
    throw new BrimError(
      'CHECKPOINT_INVALID',
      `config.json: layer_types names ${types.length} layers of ${config.num_hidden_layers}`,
    )
  const slides = (layer: number) => (types ? types[layer] === 'sliding_attention' : rule(layer))
  return (layer) => ({ window: window != null && window < config.max_position_embeddings && slides(layer) ? window : undefined })
}

function readDims(config: DecoderConfig): Dims {
  const heads = config.num_attention_heads
  const dims = {
    layers: config.num_hidden_layers,
    hidden: config.hidden_size,
    heads,
    kvHeads: config.num_key_value_heads ?? heads,
    headDim: config.head_dim ?? config.hidden_size / heads,
    ffn: config.intermediate_size,
    vocab: config.vocab_size,
    contextLimit: config.max_position_embeddings,
  }
  if (heads % dims.kvHeads !== 0)
    throw new BrimError(
      'CHECKPOINT_INVALID',
      `config.json: ${heads} attention heads cannot share ${dims.kvHeads} key-value heads`,
    )
  if (dims.headDim % 16 !== 0) throw unsupported(`heads of size ${dims.headDim} (the attention operator needs a multiple of 16)`)
  return dims
}
