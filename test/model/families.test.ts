import { describe, expect, it } from 'vitest'
import { readArchitecture } from '../../core/model/families/index.ts'
import { qwen05bConfig, tinyLlamaConfig, tinyQwen2Config } from '../../core/model/random-checkpoint.ts'

describe('config.json', () => {
  it('of a Llama becomes dims, rope and biases', () => {
    expect(readArchitecture({ ...tinyLlamaConfig, some_future_field: 1 })).toEqual({
      family: 'llama',
      dims: { layers: 4, hidden: 64, heads: 4, kvHeads: 2, headDim: 16, ffn: 96, vocab: 160, contextLimit: 256 },
      epsilon: 1e-5,
      rope: { theta: 10_000, scaling: { kind: 'none' } },
      bias: { qkv: false, output: false, mlp: false },
      tiedEmbeddings: false,
    })
  })

  it('of a Qwen2.5-0.5B has biases on queries, keys and values and a tied head', () => {
    const { bias, tiedEmbeddings, dims } = readArchitecture(qwen05bConfig)
    expect({ bias, tiedEmbeddings }).toEqual({ bias: { qkv: true, output: false, mlp: false }, tiedEmbeddings: true })
    expect(dims).toMatchObject({ headDim: 64, kvHeads: 2, contextLimit: 32_768 })
  })

  it('of an old Llama without key-value heads means one for each head', () => {
    expect(readArchitecture({ ...tinyLlamaConfig, num_key_value_heads: undefined }).dims.kvHeads).toBe(4)
  })

  it('may keep its rope settings where transformers 5 writes them', () => {
    const { rope_theta: _, ...config } = tinyLlamaConfig
    const rope_parameters = { rope_theta: 5e5, rope_type: 'linear', factor: 4 }
    expect(readArchitecture({ ...config, rope_parameters }).rope).toEqual({ theta: 5e5, scaling: { kind: 'linear', factor: 4 } })
  })

  it('reads the scaling of Llama 3.1 and the older spelling of linear scaling', () => {
    const llama3 = {
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    }
    const scalingOf = (rope_scaling: object) => readArchitecture({ ...tinyLlamaConfig, rope_scaling }).rope.scaling
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
    ['another activation', { ...tinyLlamaConfig, hidden_act: 'gelu' }, 'ARCHITECTURE_UNSUPPORTED', /gelu/],
    ['heads of 24', { ...tinyLlamaConfig, head_dim: 24 }, 'ARCHITECTURE_UNSUPPORTED', /heads of size 24/],
    [
      'heads that cannot share',
      { ...tinyLlamaConfig, num_key_value_heads: 3 },
      'CHECKPOINT_INVALID',
      /4 attention heads cannot share 3/,
    ],
    ['yarn', { ...tinyLlamaConfig, rope_scaling: { rope_type: 'yarn', factor: 4 } }, 'ARCHITECTURE_UNSUPPORTED', /yarn/],
    [
      'linear scaling without a factor',
      { ...tinyLlamaConfig, rope_scaling: { type: 'linear' } },
      'CHECKPOINT_INVALID',
      /lacks factor/,
    ],
    ['a sliding window', { ...tinyQwen2Config, use_sliding_window: true }, 'ARCHITECTURE_UNSUPPORTED', /use_sliding_window/],
    ['quantised weights', { ...tinyLlamaConfig, quantization_config: { bits: 4 } }, 'ARCHITECTURE_UNSUPPORTED', /quantised/],
  ]
  it.each(refused)('is refused with %s', (_, config, code, message) => {
    expect(() => readArchitecture(config)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }))
  })

  it('of an unknown architecture gets the list of known ones', () => {
    expect(() => readArchitecture({ architectures: ['X'] })).toThrow(
      expect.objectContaining({ hint: 'known are LlamaForCausalLM, Qwen2ForCausalLM' }),
    )
  })
})
