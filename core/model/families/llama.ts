import { z } from 'zod'
import { DecoderConfig, parseConfig, readDims, readRope } from './decoder-config.ts'
import type { Family } from './family.ts'

const LlamaConfig = DecoderConfig.extend({ attention_bias: z.boolean().default(false), mlp_bias: z.boolean().default(false) })

/** Llama 1 to 3 and their fine-tunes, such as Vicuna. */
export const llama: Family = {
  name: 'llama',
  architectures: ['LlamaForCausalLM'],
  read(raw) {
    const config = parseConfig(LlamaConfig, raw)
    return {
      family: 'llama',
      dims: readDims(config),
      epsilon: config.rms_norm_eps,
      rope: readRope(config),
      bias: { qkv: config.attention_bias, output: config.attention_bias, mlp: config.mlp_bias },
      tiedEmbeddings: config.tie_word_embeddings,
    }
  },
}
