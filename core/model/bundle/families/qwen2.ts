import { z } from 'zod'
import { DecoderConfig, describeDecoder, parseDecoderConfig, unsupported } from './decoder-config.ts'
import type { Family } from './family.ts'

const Qwen2Config = DecoderConfig.extend({ use_sliding_window: z.boolean().default(false) })

/** Qwen2 and Qwen2.5: Llama with biases on queries, keys and values. */
export const qwen2: Family = {
  architectures: ['Qwen2ForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(Qwen2Config, raw)
    if (config.use_sliding_window) throw unsupported('sliding-window attention (use_sliding_window)')
    return describeDecoder('qwen2', config, { qkv: true, output: false, mlp: false })
  },
}
