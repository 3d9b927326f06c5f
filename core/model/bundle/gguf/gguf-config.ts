import { BrimError } from '../../../kit/base/errors.ts'
import type { TensorInfo } from '../safetensors.ts'
import type { GgufMetadata } from './gguf-metadata.ts'
import type { GgufNaming } from './gguf-names.ts'
import { invalidGguf } from './gguf-reader.ts'

/** A family's config.json, as far as its GGUF metadata decide it, and how its tensors differ. */
interface GgufFamily {
  /** The value of `architectures` in config.json. */
  readonly architecture: string
  /** llama.cpp rotates neighbouring rows of a head: its converter has them in this order. */
  readonly pairs?: boolean
  readonly naming?: Omit<GgufNaming, 'pairedHeads'>
  extra?(read: FamilyReader): object
}

/** Reads the metadata keys of one architecture: `llama.block_count` by 'block_count'. */
class FamilyReader {
  readonly metadata: GgufMetadata
  readonly #prefix: string
  readonly #tensors: ReadonlyMap<string, TensorInfo>

  constructor(metadata: GgufMetadata, prefix: string, tensors: ReadonlyMap<string, TensorInfo>) {
    this.metadata = metadata
    this.#prefix = prefix
    this.#tensors = tensors
  }

  count(key: string): number | undefined {
    return this.metadata.count(this.#key(key))
  }

  number(key: string): number | undefined {
    return this.metadata.number(this.#key(key))
  }

  text(key: string): string | undefined {
    return this.metadata.text(this.#key(key))
  }

  requiredCount(key: string): number {
    return this.metadata.required(this.#key(key), this.count(key))
  }

  requiredNumber(key: string): number {
    return this.metadata.required(this.#key(key), this.number(key))
  }

  tensor(name: string): TensorInfo | undefined {
    return this.#tensors.get(name)
  }

  #key(key: string): string {
    return `${this.#prefix}.${key}`
  }
}

const layersOf = (read: FamilyReader) => read.requiredCount('block_count')

const families: Readonly<Record<string, GgufFamily>> = {
  llama: {
    architecture: 'LlamaForCausalLM',
    pairs: true,
    extra: (read) => ({ attention_bias: hasBias(read, 'attn_q'), mlp_bias: hasBias(read, 'ffn_up') }),
  },
  qwen2: { architecture: 'Qwen2ForCausalLM' },
  qwen3: { architecture: 'Qwen3ForCausalLM' },
  phi3: {
    architecture: 'Phi3ForCausalLM',
    naming: { names: { ffn_up: 'mlp.gate_up_proj' } },
    extra: (read) => ({
      partial_rotary_factor: read.requiredCount('rope.dimension_count') / headDimOf(read),
      original_max_position_embeddings: read.count('rope.scaling.original_context_length'),
      sliding_window: read.count('attention.sliding_window') || null,
    }),
  },
  smollm3: {
    architecture: 'SmolLM3ForCausalLM',
    pairs: true,
    // llama.cpp has it in its code: every fourth layer has no rotary positions.
    extra: (read) => ({ no_rope_layers: Array.from({ length: layersOf(read) }, (_, layer) => ((layer + 1) % 4 === 0 ? 0 : 1)) }),
  },
  granite: {
    architecture: 'GraniteForCausalLM',
    pairs: true,
    extra: (read) => ({
      attention_bias: hasBias(read, 'attn_q'),
      attention_multiplier: read.number('attention.scale'),
      embedding_multiplier: read.number('embedding_scale'),
      residual_multiplier: read.number('residual_scale'),
      logits_scaling: read.number('logit_scale'),
    }),
  },
  olmo2: {
    architecture: 'Olmo2ForCausalLM',
    naming: { names: { post_attention_norm: 'post_attention_layernorm', post_ffw_norm: 'post_feedforward_layernorm' } },
  },
  gemma3: {
    architecture: 'Gemma3ForCausalLM',
    naming: {
      normsPlusOne: true,
      names: {
        post_attention_norm: 'post_attention_layernorm',
        ffn_norm: 'pre_feedforward_layernorm',
        post_ffw_norm: 'post_feedforward_layernorm',
      },
    },
    extra: (read) => ({
      hidden_activation: 'gelu_pytorch_tanh',
      // As in llama.cpp: the model of 62 layers scales by the hidden size per head.
      query_pre_attn_scalar:
        layersOf(read) === 62
          ? read.requiredCount('embedding_length') / read.requiredCount('attention.head_count')
          : headDimOf(read),
      sliding_window: read.requiredCount('attention.sliding_window'),
      sliding_window_pattern: 6,
      layer_types: Array.from({ length: layersOf(read) }, (_, layer) =>
        (layer + 1) % 6 === 0 ? 'full_attention' : 'sliding_attention',
      ),
      rope_local_base_freq: read.number('rope.freq_base_swa') ?? 10_000,
    }),
  },
}

export const ggufArchitectures: readonly string[] = Object.keys(families)

/** @param factors values of the tensors with rotary factors, by name */
export function readGgufConfig(
  metadata: GgufMetadata,
  tensors: readonly TensorInfo[],
  factors: ReadonlyMap<string, readonly number[]>,
): { config: { readonly vocab_size: number }; naming: GgufNaming } {
  const name = metadata.required('general.architecture', metadata.text('general.architecture'))
  const family = Object.hasOwn(families, name) ? families[name] : undefined
  if (!family)
    throw new BrimError(
      'ARCHITECTURE_UNSUPPORTED',
      `${metadata.file}: Brim does not read GGUF files of the architecture ${name}`,
      {
        hint: `architectures that it reads: ${ggufArchitectures.join(', ')}`,
      },
    )
  const read = new FamilyReader(metadata, name, new Map(tensors.map((tensor) => [tensor.name, tensor])))
  const embedding = read.tensor('token_embd.weight')
  if (!embedding)
    throw new BrimError('TENSOR_MISSING', `the tensor token_embd.weight is not in ${metadata.file}`, {
      hint: 'give the first file of the model, not a draft or a vision encoder',
    })
  const heads = read.requiredCount('attention.head_count')
  const keys = read.count('attention.head_count_kv') ?? heads
  const rope = readRope(read, factors)
  const config = {
    architectures: [family.architecture],
    hidden_size: read.requiredCount('embedding_length'),
    intermediate_size: read.requiredCount('feed_forward_length'),
    num_hidden_layers: layersOf(read),
    num_attention_heads: heads,
    num_key_value_heads: keys,
    head_dim: headDimOf(read),
    vocab_size: embedding.shape[0]!,
    max_position_embeddings: read.requiredCount('context_length'),
    rms_norm_eps: read.requiredNumber('attention.layer_norm_rms_epsilon'),
    rope_theta: read.number('rope.freq_base') ?? 10_000,
    ...(rope ? { rope_scaling: rope } : {}),
    tie_word_embeddings: read.tensor('output.weight') === undefined,
    ...family.extra?.(read),
  }
  return { config, naming: { ...family.naming, ...(family.pairs ? { pairedHeads: { queries: heads, keys } } : {}) } }
}

const hasBias = (read: FamilyReader, part: string) => read.tensor(`blk.0.${part}.bias`) !== undefined

function headDimOf(read: FamilyReader): number {
  return read.count('attention.key_length') ?? read.requiredCount('embedding_length') / read.requiredCount('attention.head_count')
}

/** Tensors that hold rotary factors, not weights. */
export const factorTensors = ['rope_freqs.weight', 'rope_factors_short.weight', 'rope_factors_long.weight'] as const

function readRope(read: FamilyReader, factors: ReadonlyMap<string, readonly number[]>): object | undefined {
  const [llama3, short, long] = factorTensors.map((name) => factors.get(name))
  if (short && long)
    return {
      rope_type: 'longrope',
      short_factor: short,
      long_factor: long,
      original_max_position_embeddings: read.requiredCount('rope.scaling.original_context_length'),
      attention_factor: read.number('rope.scaling.attn_factor'),
    }
  if (llama3) return llama3Scaling(read, llama3)
  const kind = read.text('rope.scaling.type') ?? 'none'
  if (kind === 'none') return undefined
  const factor = read.requiredNumber('rope.scaling.factor')
  if (kind === 'linear') return { rope_type: 'linear', factor }
  if (kind !== 'yarn')
    throw new BrimError('ARCHITECTURE_UNSUPPORTED', `${read.metadata.file}: Brim does not support rope scaling of type ${kind}`)
  return {
    rope_type: 'yarn',
    factor,
    original_max_position_embeddings: read.requiredCount('rope.scaling.original_context_length'),
    beta_fast: read.number('rope.scaling.yarn_beta_fast') ?? 32,
    beta_slow: read.number('rope.scaling.yarn_beta_slow') ?? 1,
  }
}

/** Llama 3's is 8,192. */
const originalContexts = Array.from({ length: 14 }, (_, i) => 2 ** (i + 4))

/**
 * llama.cpp's converter computes the divisors of the frequencies from Llama 3's scaling, and keeps only these. The largest is
 * the factor; of the context before the scaling, a power of two, the one that gives these divisors is taken.
 */
function llama3Scaling(read: FamilyReader, divisors: readonly number[]): object {
  const factor = divisors.reduce((largest, divisor) => Math.max(largest, divisor), 1)
  const theta = read.number('rope.freq_base') ?? 10_000
  const [low, high] = [1, 4]
  const explains = (original: number) =>
    divisors.every((divisor, i) => {
      const wavelength = 2 * Math.PI * theta ** (i / divisors.length)
      const smooth = Math.min(1, Math.max(0, (original / wavelength - low) / (high - low)))
      return Math.abs(divisor * ((1 - smooth) / factor + smooth) - 1) < 1e-3
    })
  const original = originalContexts.find(explains)
  if (original === undefined)
    throw invalidGguf(
      read.metadata.file,
      "has rotary factors in rope_freqs.weight that are not Llama 3's",
      'build from the safetensors checkpoint of the model',
    )
  return {
    ...{ rope_type: 'llama3', factor, low_freq_factor: low, high_freq_factor: high },
    original_max_position_embeddings: original,
  }
}
