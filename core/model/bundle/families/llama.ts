import { z } from 'zod'
import { DecoderConfig, describeDecoder, parseDecoderConfig } from './decoder-config.ts'
import type { Family } from './family.ts'

const LlamaConfig = DecoderConfig.extend({ attention_bias: z.boolean().default(false), mlp_bias: z.boolean().default(false) })

/** Llama 1 to 3 and their fine-tunes, such as Vicuna. */
export const llama: Family = {
  architectures: ['LlamaForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(LlamaConfig, raw)
    const { attention_bias: attention, mlp_bias: mlp } = config
    return describeDecoder('llama', config, { bias: { qkv: attention, output: attention, mlp } })
  },
}
