import { z } from 'zod'
import { BrimError } from '../../../kit/base/errors.ts'
import type { Architecture, DeltaShape } from '../architecture.ts'
import { DecoderConfig, describeDecoder, parseDecoderConfig } from './decoder-config.ts'
import { type Family, unsupported } from './family.ts'

const count = z.int().min(1)

const layerTypes = ['linear_attention', 'full_attention'] as const

/** Defaults are those of transformers. */
const Qwen35Text = DecoderConfig.omit({ layer_types: true }).extend({
  head_dim: count.default(256),
  max_position_embeddings: count.default(32_768),
  attention_bias: z.boolean().default(false),
  partial_rotary_factor: z.number().default(0.25),
  layer_types: z.array(z.enum(layerTypes)).nullish(),
  full_attention_interval: count.default(4),
  linear_conv_kernel_dim: z.int().min(2).max(16).default(4),
  linear_key_head_dim: count.default(128),
  linear_value_head_dim: count.default(128),
  linear_num_key_heads: count.default(16),
  linear_num_value_heads: count.default(32),
})
type Qwen35Text = z.infer<typeof Qwen35Text>

const withPictures = 'Qwen3_5ForConditionalGeneration'

const Outer = z.looseObject({
  architectures: z.array(z.string()),
  text_config: z.looseObject({}).optional(),
  tie_word_embeddings: z.boolean().optional(),
})

/**
 * Qwen3.5, dense: three of four layers are Gated DeltaNet, the others gated attention. Of a checkpoint that also reads
 * pictures, the text model.
 */
export const qwen35: Family = {
  architectures: ['Qwen3_5ForCausalLM', withPictures],
  read(raw) {
    const outer = parseDecoderConfig(Outer, raw)
    const readsPictures = outer.architectures.includes(withPictures)
    if (readsPictures && outer.text_config === undefined)
      throw new BrimError('CHECKPOINT_INVALID', `config.json: ${withPictures} without a text_config`)
    const config = parseDecoderConfig(Qwen35Text, readsPictures ? outer.text_config : raw)
    const { tie_word_embeddings: tiedEmbeddings = config.tie_word_embeddings } = outer
    return { ...describe(config), tiedEmbeddings, ...(readsPictures ? { tensorRoot: 'model.language_model' } : {}) }
  },
}

function describe(config: Qwen35Text): Architecture {
  if (config.attention_bias) throw unsupported('Qwen3.5 with biases of attention (attention_bias)')
  const attends = attendingLayers(config)
  const model = describeDecoder(
    'qwen3.5',
    { ...config, layer_types: undefined },
    {
      qkNorm: 'head',
      normsAddOne: true,
      layer: (layer) => (attends[layer] ? {} : { rope: undefined, mixer: 'delta' }),
    },
  )
  const { rotated = model.dims.headDim } = model.ropes.global
  if (rotated < 16 || rotated % 16 !== 0)
    throw unsupported(`rotating ${rotated} elements of a head (the attention operator needs a multiple of 16)`)
  return { ...model, gatedAttention: true, delta: deltaOf(config) }
}

function attendingLayers({
  num_hidden_layers: layers,
  full_attention_interval: interval,
  layer_types: types,
}: Qwen35Text): boolean[] {
  if (!types) return Array.from({ length: layers }, (_, layer) => (layer + 1) % interval === 0)
  if (types.length === layers) return types.map((type) => type === 'full_attention')
  throw new BrimError('CHECKPOINT_INVALID', `config.json: layer_types names ${types.length} layers of ${layers}`)
}

function deltaOf(config: Qwen35Text): DeltaShape {
  const [keyHeads, valueHeads] = [config.linear_num_key_heads, config.linear_num_value_heads]
  if (valueHeads % keyHeads !== 0)
    throw new BrimError('CHECKPOINT_INVALID', `config.json: ${valueHeads} value heads cannot share ${keyHeads} key heads`)
  const [keyDim, valueDim, taps] = [config.linear_key_head_dim, config.linear_value_head_dim, config.linear_conv_kernel_dim]
  return { keyHeads, valueHeads, keyDim, valueDim, taps }
}
