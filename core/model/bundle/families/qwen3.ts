import { z } from 'zod'
import { describeDecoder, parseDecoderConfig } from './decoder-config.ts'
import type { Family } from './family.ts'
import { QwenConfig, qwenWindows } from './qwen2.ts'

const Qwen3Config = QwenConfig.extend({ attention_bias: z.boolean().default(false) })

/** Qwen3: queries and keys of each head are normalised. */
export const qwen3: Family = {
  architectures: ['Qwen3ForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(Qwen3Config, { head_dim: 128, ...(raw as object) })
    const { attention_bias: bias } = config
    return describeDecoder('qwen3', config, { bias: { qkv: bias, output: bias }, qkNorm: 'head', layer: qwenWindows(config) })
  },
}
