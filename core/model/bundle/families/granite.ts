import { z } from 'zod'
import { DecoderConfig, describeDecoder, parseDecoderConfig } from './decoder-config.ts'
import type { Family } from './family.ts'

const positive = z.number().positive()

const GraniteConfig = DecoderConfig.extend({
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  embedding_multiplier: positive.default(1),
  residual_multiplier: positive.default(1),
  attention_multiplier: positive.default(1),
  logits_scaling: positive.default(1),
})

/** Granite 3 and 4 without experts: Llama with four factors. */
export const granite: Family = {
  architectures: ['GraniteForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(GraniteConfig, raw)
    const { attention_bias: attention, mlp_bias: mlp, attention_multiplier: scores } = config
    return describeDecoder('granite', config, {
      bias: { qkv: attention, output: attention, mlp },
      scales: {
        embedding: config.embedding_multiplier,
        residual: config.residual_multiplier,
        attention: scores,
        logits: 1 / config.logits_scaling,
      },
    })
  },
}
