import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../base/errors.ts'
import type { Adapter, Architecture } from './architecture.ts'
import { readJson } from './checkpoint.ts'
import { TensorFiles } from './tensor-files.ts'

const count = z.int().min(1)

const AdapterConfig = z.object({
  kind: z.literal('hat-adapter'),
  split: count,
  hidden_size: count,
  num_attention_heads: count,
  num_key_value_heads: count,
  head_dim: count,
  rope_theta: z.number().positive(),
  rms_norm_eps: z.number().positive(),
})

export interface AdapterFiles extends AsyncDisposable {
  readonly adapter: Adapter
  readonly tensors: TensorFiles
}

/**
 * Reads `adapter_config.json` and `adapter.safetensors` of a folder.
 * @returns undefined where there is no adapter
 * @throws BrimError CHECKPOINT_INVALID, SAFETENSORS_INVALID
 */
export async function openAdapter(folder: string, model: Architecture): Promise<AdapterFiles | undefined> {
  const json = await readJson(folder, 'adapter_config.json')
  if (json === undefined) return undefined
  const parsed = AdapterConfig.safeParse(json)
  const path = join(folder, 'adapter_config.json')
  if (!parsed.success) throw new BrimError('CHECKPOINT_INVALID', `${path} describes no adapter`, { cause: parsed.error })
  const config = parsed.data
  if (config.hidden_size !== model.dims.hidden)
    throw new BrimError(
      'CHECKPOINT_INVALID',
      `${path}: hidden_size is ${config.hidden_size}, the model's is ${model.dims.hidden}`,
      {
        hint: 'the adapter was trained for another model',
      },
    )
  if (config.head_dim % 16 !== 0 || config.num_attention_heads % config.num_key_value_heads !== 0)
    throw new BrimError(
      'ARCHITECTURE_UNSUPPORTED',
      `${path}: heads must be multiples of 16 wide and share key-value heads evenly`,
    )
  const adapter: Adapter = {
    split: config.split,
    hidden: config.hidden_size,
    heads: config.num_attention_heads,
    kvHeads: config.num_key_value_heads,
    headDim: config.head_dim,
    epsilon: config.rms_norm_eps,
    rope: { theta: config.rope_theta, scaling: { kind: 'none' } },
  }
  const tensors = await TensorFiles.open([join(folder, 'adapter.safetensors')])
  return { adapter, tensors, [Symbol.asyncDispose]: () => tensors[Symbol.asyncDispose]() }
}
