import { describe, expect, it } from 'vitest'
import { readArchitecture } from '../../../../core/model/bundle/families/index.ts'
import { qwen05bConfig, tinyLlamaConfig, tinyQwen2Config } from '../../../../lab/random-checkpoint.ts'

describe('config.json', () => {
  it('of a Llama gives dims, rope and biases', () => {
    expect(readArchitecture({ ...tinyLlamaConfig, some_future_field: 1 })).toMatchObject({
      family: 'llama',
      dims: { layers: 4, hidden: 64, heads: 4, kvHeads: 2, headDim: 16, ffn: 96, vocab: 160, contextLimit: 256 },
      epsilon: 1e-5,
      ropes: { global: { theta: 10_000, scaling: { kind: 'none' } } },
      layers: Array(4).fill({ rope: 'global', window: undefined }),
      scales: { embedding: 1, residual: 1, attention: 0.25, logits: 1 },
      bias: { qkv: false, output: false, mlp: false },
      tiedEmbeddings: false,
    })
  })

  it('of a Qwen2.5-0.5B has biases on queries, keys and values and a tied head', () => {
    const { bias, tiedEmbeddings, dims } = readArchitecture(qwen05bConfig)
    expect({ bias, tiedEmbeddings }).toEqual({ bias: { qkv: true, output: false, mlp: false }, tiedEmbeddings: true })
    expect(dims).toMatchObject({ headDim: 64, kvHeads: 2, contextLimit: 32_768 })
  })

  // As published, including fields that Brim ignores.
  const common = { hidden_act: 'silu', initializer_range: 0.02, use_cache: true, torch_dtype: 'bfloat16' }
  const llama = { ...common, architectures: ['LlamaForCausalLM'], model_type: 'llama', pretraining_tp: 1, rms_norm_eps: 1e-5 }
  const qwen = {
    ...{ ...common, architectures: ['Qwen2ForCausalLM'], model_type: 'qwen2', rms_norm_eps: 1e-6, rope_theta: 1_000_000 },
    ...{ attention_dropout: 0, bos_token_id: 151_643, use_sliding_window: false },
  }
  const vicuna7b = {
    ...{ ...llama, hidden_size: 4096, intermediate_size: 11_008, num_hidden_layers: 32, num_attention_heads: 32 },
    ...{ num_key_value_heads: 32, vocab_size: 32_000, max_position_embeddings: 4096, rope_scaling: null, pad_token_id: 0 },
    tie_word_embeddings: false,
  }
  const llama32 = {
    ...{ ...llama, hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16, num_attention_heads: 32, head_dim: 64 },
    ...{ num_key_value_heads: 8, vocab_size: 128_256, max_position_embeddings: 131_072, rope_theta: 500_000 },
    ...{
      attention_bias: false,
      attention_dropout: 0,
      mlp_bias: false,
      tie_word_embeddings: true,
      eos_token_id: [128_001, 128_009],
    },
    rope_scaling: {
      ...{ factor: 32, high_freq_factor: 4, low_freq_factor: 1, original_max_position_embeddings: 8192 },
      rope_type: 'llama3',
    },
  }
  const qwen25Instruct = {
    ...{ ...qwen, hidden_size: 896, intermediate_size: 4864, num_hidden_layers: 24, num_attention_heads: 14 },
    ...{ num_key_value_heads: 2, vocab_size: 151_936, max_position_embeddings: 32_768, tie_word_embeddings: true },
    ...{ sliding_window: 32_768, max_window_layers: 21 },
  }
  const qwen2At7b = {
    ...{ ...qwen, hidden_size: 3584, intermediate_size: 18_944, num_hidden_layers: 28, num_attention_heads: 28 },
    ...{ num_key_value_heads: 4, vocab_size: 152_064, max_position_embeddings: 131_072, tie_word_embeddings: false },
    ...{ sliding_window: 131_072, max_window_layers: 28 },
  }
  const { rope_theta: _theta, torch_dtype: _dtype, ...bare } = qwen25Instruct
  const qwenByTransformers5 = {
    ...{ ...bare, dtype: 'bfloat16', sliding_window: null, layer_types: Array(24).fill('full_attention') },
    rope_parameters: { rope_theta: 1_000_000, rope_type: 'default' },
  }
  it.each([
    ['Vicuna-7B-v1.5', vicuna7b, [32, 4096, 32, 32, 128], 'none', 1e4],
    ['Llama-3.2-1B', llama32, [16, 2048, 32, 8, 64], 'llama3', 5e5],
    ['Qwen2.5-0.5B-Instruct, whose sliding window is off', qwen25Instruct, [24, 896, 14, 2, 64], 'none', 1e6],
    ['Qwen2-7B', qwen2At7b, [28, 3584, 28, 4, 128], 'none', 1e6],
    ['Qwen2.5-0.5B-Instruct, saved by transformers 5', qwenByTransformers5, [24, 896, 14, 2, 64], 'none', 1e6],
  ])('of %s is read', (_, config, shape, scaling, theta) => {
    const { dims, ropes, tiedEmbeddings } = readArchitecture(config)
    const rope = ropes.global
    expect([dims.layers, dims.hidden, dims.heads, dims.kvHeads, dims.headDim]).toEqual(shape)
    expect([rope.scaling.kind, rope.theta, tiedEmbeddings]).toEqual([scaling, theta, config.tie_word_embeddings])
  })

  it('of Gemma 3 1B, as published, has windows, two rotary tables and its own scales', () => {
    const { layers, ropes, scales, dims, normsAddOne } = readArchitecture({
      ...{ architectures: ['Gemma3ForCausalLM'], model_type: 'gemma3_text', hidden_size: 1152, intermediate_size: 6912 },
      ...{ num_hidden_layers: 26, num_attention_heads: 4, num_key_value_heads: 1, head_dim: 256, vocab_size: 262_144 },
      ...{ hidden_activation: 'gelu_pytorch_tanh', max_position_embeddings: 32_768, query_pre_attn_scalar: 256 },
      ...{
        rope_theta: 1_000_000,
        rope_local_base_freq: 10_000,
        rope_scaling: null,
        sliding_window: 512,
        sliding_window_pattern: 6,
      },
      ...{ attn_logit_softcapping: null, final_logit_softcapping: null, attention_bias: false, rms_norm_eps: 1e-6 },
    })
    expect(layers.map(({ window }) => window ?? 0).slice(0, 7)).toEqual([512, 512, 512, 512, 512, 0, 512])
    expect(layers.slice(4, 6).map(({ rope }) => rope)).toEqual(['local', 'global'])
    expect([ropes.global.theta, ropes.local.theta]).toEqual([1e6, 1e4])
    expect(scales).toEqual({ embedding: Math.sqrt(1152), residual: 1, attention: 1 / 16, logits: 1 })
    expect({ normsAddOne, headDim: dims.headDim }).toEqual({ normsAddOne: true, headDim: 256 })
  })

  it('of Phi-4-mini, as published, rotates three quarters of each head with long factors', () => {
    const factors = Array.from({ length: 48 }, (_, at) => 1 + at)
    const { ropes, names } = readArchitecture({
      ...{
        architectures: ['Phi3ForCausalLM'],
        model_type: 'phi3',
        hidden_act: 'silu',
        hidden_size: 3072,
        intermediate_size: 8192,
      },
      ...{ num_hidden_layers: 32, num_attention_heads: 24, num_key_value_heads: 8, vocab_size: 200_064, sliding_window: 262_144 },
      ...{ max_position_embeddings: 131_072, original_max_position_embeddings: 4096, partial_rotary_factor: 0.75 },
      rope_scaling: { type: 'longrope', short_factor: Array(48).fill(1), long_factor: factors },
      tie_word_embeddings: true,
    })
    expect(ropes.global).toEqual({
      theta: 10_000,
      rotated: 96,
      scaling: { kind: 'factors', factors },
      magnitude: Math.sqrt(1 + Math.log(32) / Math.log(4096)),
    })
    expect(names.qkv).toEqual(['self_attn.qkv_proj'])
  })

  it('of an old Llama without num_key_value_heads has as many as attention heads', () => {
    expect(readArchitecture({ ...tinyLlamaConfig, num_key_value_heads: undefined }).dims.kvHeads).toBe(4)
  })

  it('may have its rope settings in rope_parameters', () => {
    const { rope_theta: _, ...config } = tinyLlamaConfig
    const rope_parameters = { rope_theta: 5e5, rope_type: 'linear', factor: 4 }
    expect(readArchitecture({ ...config, rope_parameters }).ropes.global).toEqual({
      theta: 5e5,
      scaling: { kind: 'linear', factor: 4 },
    })
  })

  // The values of transformers 5.23's LlamaConfig for the same fields.
  const linear = { rope_type: 'linear', factor: 4 }
  const plain = { rope_theta: 5e5, rope_type: 'default' }
  it.each([
    ['takes the scaling from rope_scaling', { rope_parameters: plain, rope_scaling: linear }, 1e4, 'linear'],
    ['takes theta from the top level then', { rope_parameters: plain, rope_scaling: linear, rope_theta: 1e6 }, 1e6, 'linear'],
    [
      'takes theta from rope_scaling first',
      { rope_parameters: plain, rope_scaling: { ...linear, rope_theta: 7e5 } },
      7e5,
      'linear',
    ],
    ['ignores rope_scaling: null', { rope_parameters: plain, rope_scaling: null, rope_theta: 1e6 }, 5e5, 'none'],
    ['ignores an empty rope_scaling', { rope_parameters: { ...linear, rope_theta: 5e5 }, rope_scaling: {} }, 5e5, 'linear'],
  ])('with both rope_parameters and rope_scaling %s', (_, fields, theta, kind) => {
    const { rope_theta: _theta, ...config } = tinyLlamaConfig
    expect(readArchitecture({ ...config, ...fields }).ropes.global).toMatchObject({ theta, scaling: { kind } })
  })

  it('may have the scaling of Llama 3.1 or the older spelling of linear scaling', () => {
    const llama3 = {
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    }
    const scalingOf = (rope_scaling: object) => readArchitecture({ ...tinyLlamaConfig, rope_scaling }).ropes.global.scaling
    expect(scalingOf(llama3)).toEqual({ kind: 'llama3', factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalPositions: 8192 })
    expect(scalingOf({ type: 'linear', factor: 2 })).toEqual({ kind: 'linear', factor: 2 })
  })

  const refused: [what: string, config: object, code: string, message: RegExp][] = [
    [
      'another architecture',
      { ...tinyLlamaConfig, architectures: ['MambaForCausalLM'] },
      'ARCHITECTURE_UNSUPPORTED',
      /MambaForCausalLM/,
    ],
    ['no architecture', { ...tinyLlamaConfig, architectures: undefined }, 'CHECKPOINT_INVALID', /architectures/],
    ['a missing width', { ...tinyLlamaConfig, hidden_size: undefined }, 'CHECKPOINT_INVALID', /hidden_size/],
    ['a width in words', { ...tinyLlamaConfig, intermediate_size: 'wide' }, 'CHECKPOINT_INVALID', /intermediate_size/],
    ['a billion layers', { ...tinyLlamaConfig, num_hidden_layers: 1e9 }, 'CHECKPOINT_INVALID', /num_hidden_layers/],
    ['another activation', { ...tinyLlamaConfig, hidden_act: 'gelu' }, 'ARCHITECTURE_UNSUPPORTED', /gelu/],
    ['heads of 24', { ...tinyLlamaConfig, head_dim: 24 }, 'ARCHITECTURE_UNSUPPORTED', /heads of size 24/],
    [
      'heads that cannot be divided',
      { ...tinyLlamaConfig, num_key_value_heads: 3 },
      'CHECKPOINT_INVALID',
      /4 attention heads cannot share 3/,
    ],
    ['another scaling', { ...tinyLlamaConfig, rope_scaling: { rope_type: 'ntk', factor: 4 } }, 'ARCHITECTURE_UNSUPPORTED', /ntk/],
    ['yarn without a factor', { ...tinyLlamaConfig, rope_scaling: { rope_type: 'yarn' } }, 'CHECKPOINT_INVALID', /lacks factor/],
    [
      'longrope of other heads',
      {
        ...tinyLlamaConfig,
        rope_scaling: { rope_type: 'longrope', short_factor: [1, 2], long_factor: [1, 2], original_max_position_embeddings: 8 },
      },
      'CHECKPOINT_INVALID',
      /long_factor has 2 factors for 8 frequencies/,
    ],
    [
      'layers of another number',
      { ...tinyQwen2Config, use_sliding_window: true, layer_types: [] },
      'CHECKPOINT_INVALID',
      /layer_types/,
    ],
    ['experts', { ...tinyLlamaConfig, architectures: ['Qwen3MoeForCausalLM'] }, 'ARCHITECTURE_UNSUPPORTED', /it has experts/],
    [
      'linear scaling without a factor',
      { ...tinyLlamaConfig, rope_scaling: { type: 'linear' } },
      'CHECKPOINT_INVALID',
      /lacks factor/,
    ],
  ]
  it.each(refused)('is rejected with %s', (_, config, code, message) => {
    expect(() => readArchitecture(config)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }))
  })

  it('of an unsupported architecture is rejected with the list of supported ones', () => {
    expect(() => readArchitecture({ architectures: ['X'] })).toThrow(
      expect.objectContaining({
        hint: expect.stringMatching(/^supported architectures: LlamaForCausalLM, Qwen2ForCausalLM, Qwen3/),
      }),
    )
  })
})
