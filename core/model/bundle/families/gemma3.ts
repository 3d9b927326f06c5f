import { z } from 'zod'
import { DecoderConfig, describeDecoder, parseDecoderConfig, windows } from './decoder-config.ts'
import { type Family, unsupported } from './family.ts'
import { readRope } from './rope-config.ts'

const positive = z.number().positive()

const Gemma3Config = DecoderConfig.omit({ rope_parameters: true }).extend({
  hidden_activation: z.string().default('gelu_pytorch_tanh'),
  query_pre_attn_scalar: positive.default(256),
  sliding_window_pattern: z.int().min(1).nullish(),
  rope_local_base_freq: positive.nullish(),
  final_logit_softcapping: positive.nullish(),
  attn_logit_softcapping: positive.nullish(),
  attention_bias: z.boolean().default(false),
  tie_word_embeddings: z.boolean().default(true),
  /** transformers 5: of each kind of layers. */
  rope_parameters: z.looseObject({ full_attention: z.unknown(), sliding_attention: z.unknown() }).nullish(),
})

/** What transformers fills in. */
const defaults = { head_dim: 256, max_position_embeddings: 131_072, sliding_window: 4_096, vocab_size: 262_208 }

/** Gemma 3, of text: five of six layers attend to a window, with a rotary table of their own. */
export const gemma3: Family = {
  architectures: ['Gemma3ForCausalLM'],
  read(raw) {
    const { rope_parameters: ropes, ...rest } = parseDecoderConfig(Gemma3Config, { ...defaults, ...(raw as object) })
    if (rest.final_logit_softcapping ?? rest.attn_logit_softcapping) throw unsupported('caps of scores or logits (softcapping)')
    const config: DecoderConfig = { ...rest, hidden_act: rest.hidden_activation, rope_theta: rest.rope_theta ?? 1e6 }
    const windowOf = windows(config, (layer) => (layer + 1) % (rest.sliding_window_pattern ?? 6) !== 0)
    const types = config.layer_types
    const isLocal = (layer: number) =>
      types ? types[layer] === 'sliding_attention' : (layer + 1) % (rest.sliding_window_pattern ?? 6) !== 0
    const { attention_bias: bias, query_pre_attn_scalar: scalar } = rest
    const plain = describeDecoder('gemma3', { ...config, rope_scaling: undefined }, { activation: 'gelu-tanh' })
    const local = ropes?.sliding_attention ?? { rope_theta: rest.rope_local_base_freq ?? 10_000 }
    return describeDecoder('gemma3', config, {
      activation: 'gelu-tanh',
      bias: { qkv: bias, output: bias },
      names: {
        afterAttention: 'post_attention_layernorm',
        beforeMlp: 'pre_feedforward_layernorm',
        afterMlp: 'post_feedforward_layernorm',
      },
      qkNorm: 'head',
      normsAddOne: true,
      ropes: { global: readRope(config, plain.dims, ropes?.full_attention), local: readRope(config, plain.dims, local) },
      layer: (layer) => ({ ...windowOf(layer), rope: isLocal(layer) ? 'local' : 'global' }),
      scales: { embedding: Math.sqrt(config.hidden_size), attention: scalar ** -0.5 },
    })
  },
}
