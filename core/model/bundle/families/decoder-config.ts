import { z } from 'zod'
import '../../../kit/base/plain-messages.ts'
import { BrimError } from '../../../kit/base/errors.ts'
import type { Architecture, Rope, RopeScaling } from '../architecture.ts'
import type { Dims } from '../manifest.ts'

const count = z.int().min(1)

const Scaling = z.looseObject({
  rope_type: z.string().optional(),
  /** The older spelling of rope_type. */
  type: z.string().optional(),
  rope_theta: z.number().positive().optional(),
  partial_rotary_factor: z.number().nullish(),
  factor: z.number().positive().optional(),
  low_freq_factor: z.number().positive().optional(),
  high_freq_factor: z.number().positive().optional(),
  original_max_position_embeddings: count.optional(),
})

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
  rope_theta: z.number().positive().nullish(),
  rope_scaling: Scaling.nullish(),
  /** transformers 5: rope_theta and rope_scaling together. */
  rope_parameters: Scaling.nullish(),
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

/** @throws BrimError ARCHITECTURE_UNSUPPORTED, CHECKPOINT_INVALID */
export function describeDecoder(family: string, config: DecoderConfig, bias: Architecture['bias']): Architecture {
  return {
    family,
    dims: readDims(config),
    epsilon: config.rms_norm_eps,
    rope: readRope(config),
    bias,
    tiedEmbeddings: config.tie_word_embeddings,
  }
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
  if (config.hidden_act !== 'silu') throw unsupported(`the activation ${config.hidden_act} (only silu)`)
  if (dims.headDim % 16 !== 0) throw unsupported(`heads of size ${dims.headDim} (the attention operator needs a multiple of 16)`)
  return dims
}

/** As in transformers 5, a rope_scaling that is not empty replaces rope_parameters, including its theta. */
function readRope(config: DecoderConfig): Rope {
  const { rope_scaling: older, rope_parameters: newer } = config
  const rope = older && Object.keys(older).length > 0 ? older : (newer ?? {})
  const rotated = rope.partial_rotary_factor ?? config.partial_rotary_factor ?? 1
  if (rotated !== 1) throw unsupported(`partial_rotary_factor ${rotated} (only 1)`)
  return { theta: rope.rope_theta ?? config.rope_theta ?? 10_000, scaling: readScaling(rope) }
}

export function unsupported(what: string): BrimError {
  return new BrimError('ARCHITECTURE_UNSUPPORTED', `config.json: Brim does not support ${what}`)
}

function readScaling(scaling: z.infer<typeof Scaling>): RopeScaling {
  const kind = scaling.rope_type ?? scaling.type ?? 'default'
  const requireField = (field: 'factor' | 'low_freq_factor' | 'high_freq_factor' | 'original_max_position_embeddings') => {
    const value = scaling[field]
    if (value === undefined) throw new BrimError('CHECKPOINT_INVALID', `config.json: ${kind} rope scaling lacks ${field}`)
    return value
  }
  if (kind === 'default') return { kind: 'none' }
  if (kind === 'linear') return { kind: 'linear', factor: requireField('factor') }
  if (kind !== 'llama3') throw unsupported(`rope scaling of type ${kind} (only default, linear and llama3)`)
  return {
    kind: 'llama3',
    factor: requireField('factor'),
    lowFreqFactor: requireField('low_freq_factor'),
    highFreqFactor: requireField('high_freq_factor'),
    originalPositions: requireField('original_max_position_embeddings'),
  }
}
