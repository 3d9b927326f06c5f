import { z } from 'zod'
import { DecoderConfig, describeDecoder, parseDecoderConfig } from './decoder-config.ts'
import type { Family } from './family.ts'

const Olmo2Config = DecoderConfig.extend({
  attention_bias: z.boolean().default(false),
  rms_norm_eps: z.number().positive().default(1e-5),
})

/** OLMo 2: normalised after attention and MLP, and queries and keys of all heads together. */
export const olmo2: Family = {
  architectures: ['Olmo2ForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(Olmo2Config, raw)
    const { attention_bias: bias } = config
    return describeDecoder('olmo2', config, {
      bias: { qkv: bias, output: bias },
      qkNorm: 'all',
      names: {
        beforeAttention: undefined,
        beforeMlp: undefined,
        afterAttention: 'post_attention_layernorm',
        afterMlp: 'post_feedforward_layernorm',
      },
    })
  },
}
