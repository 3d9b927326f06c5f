import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import type { Adapter, Architecture } from './architecture.ts'
import { checkHiddenSize, parseDrafter } from './drafter-config.ts'

export const adapterConfigFile = 'adapter_config.json'
export const adapterWeightsFile = 'adapter.safetensors'

const count = z.int().min(1)

const AdapterConfig = z.object({
  kind: z.literal('hat-adapter'),
  split: count,
  features: z.boolean().default(false),
  hidden_size: count,
  num_attention_heads: count,
  num_key_value_heads: count,
  head_dim: count,
  rope_theta: z.number().positive(),
  rms_norm_eps: z.number().positive(),
})

/**
 * @param json adapter_config.json of the folder, parsed
 * @throws BrimError CHECKPOINT_INVALID, ARCHITECTURE_UNSUPPORTED
 */
export function readAdapter(folder: string, json: object, model: Architecture): Adapter {
  const path = join(folder, adapterConfigFile)
  const config = parseDrafter(AdapterConfig, path, json, 'adapter')
  checkHiddenSize(path, config.hidden_size, model)
  if (config.head_dim % 16 !== 0 || config.num_attention_heads % config.num_key_value_heads !== 0)
    throw new BrimError(
      'ARCHITECTURE_UNSUPPORTED',
      `${path}: head_dim must be a multiple of 16, and attention heads a multiple of key-value heads`,
    )
  return {
    split: config.split,
    features: config.features,
    hidden: config.hidden_size,
    heads: config.num_attention_heads,
    kvHeads: config.num_key_value_heads,
    headDim: config.head_dim,
    epsilon: config.rms_norm_eps,
    rope: { theta: config.rope_theta, scaling: { kind: 'none' } },
  }
}
