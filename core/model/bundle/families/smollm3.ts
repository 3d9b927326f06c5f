import { z } from 'zod'
import { DecoderConfig, describeDecoder, parseDecoderConfig, windows } from './decoder-config.ts'
import type { Family } from './family.ts'

const SmolLm3Config = DecoderConfig.extend({
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  use_sliding_window: z.boolean().default(false),
  /** 1: the layer rotates queries and keys; 0: it knows no positions. */
  no_rope_layers: z.array(z.int()).nullish(),
  no_rope_layer_interval: z.int().min(1).default(4),
})

/** SmolLM3: every fourth layer has no rotary embedding. */
export const smollm3: Family = {
  architectures: ['SmolLM3ForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(SmolLm3Config, raw)
    const { attention_bias: attention, mlp_bias: mlp, no_rope_layers: flags, no_rope_layer_interval: every } = config
    const rotates = (layer: number) => (flags?.length ? flags[layer] !== 0 : (layer + 1) % every !== 0)
    const windowOf = config.use_sliding_window ? windows(config, rotates) : () => ({})
    return describeDecoder('smollm3', config, {
      bias: { qkv: attention, output: attention, mlp },
      layer: (layer) => ({ ...windowOf(layer), rope: rotates(layer) ? 'global' : undefined }),
    })
  },
}
