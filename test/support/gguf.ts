import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeHalves } from '../../core/kit/base/half.ts'
import { TensorFiles } from '../../core/model/bundle/tensor-files.ts'

/** A value of the metadata, by ggml's name of its type. */
export type GgufValue =
  | { u32: number }
  | { u64: bigint }
  | { f32: number }
  | { flag: boolean }
  | { text: string }
  | { texts: readonly string[] }
  | { f32s: readonly number[] }
  | { i32s: readonly number[] }

export interface GgufTensor {
  name: string
  /** ggml's number of the type. */
  type: number
  /** Columns before rows. */
  dims: readonly number[]
  data: Uint8Array
}

export const ggmlTypes = { F32: 0, F16: 1, Q4_0: 2, Q8_0: 8, Q4_K: 12, Q6_K: 14, IQ4_XS: 23, BF16: 30 } as const

export const u32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
export const u64 = (value: number | bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
const f32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}
export const ggufText = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])
const array = (type: number, items: readonly Buffer[]) => Buffer.concat([u32(9), u32(type), u64(items.length), ...items])

function encodeValue(value: GgufValue): Buffer {
  if ('u32' in value) return Buffer.concat([u32(4), u32(value.u32)])
  if ('u64' in value) return Buffer.concat([u32(10), u64(value.u64)])
  if ('f32' in value) return Buffer.concat([u32(6), f32(value.f32)])
  if ('flag' in value) return Buffer.concat([u32(7), Buffer.of(value.flag ? 1 : 0)])
  if ('text' in value) return Buffer.concat([u32(8), ggufText(value.text)])
  if ('texts' in value) return array(8, value.texts.map(ggufText))
  if ('f32s' in value) return array(6, value.f32s.map(f32))
  return array(
    5,
    value.i32s.map((item) => u32(item >>> 0)),
  )
}

/** A GGUF file of version 3. */
export function ggufFile(
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly GgufTensor[],
  { alignment = 32 } = {},
): Buffer {
  const entries = Object.entries(metadata).map(([key, value]) => Buffer.concat([ggufText(key), encodeValue(value)]))
  const pad = (bytes: number) => Buffer.alloc((alignment - (bytes % alignment)) % alignment)
  const infos: Buffer[] = []
  const data: Uint8Array[] = []
  let offset = 0
  for (const tensor of tensors) {
    const dims = [u32(tensor.dims.length), ...tensor.dims.map(u64)]
    infos.push(ggufText(tensor.name), ...dims, u32(tensor.type), u64(offset))
    const padding = pad(tensor.data.length)
    data.push(tensor.data, padding)
    offset += tensor.data.length + padding.length
  }
  const head = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(entries.length), ...entries, ...infos])
  return Buffer.concat([head, pad(head.length), ...data])
}

/** As ggml quantises: the largest value becomes the code 0 (Q4_0) or ±127 (Q8_0). */
export function encodeGgml(type: 'F32' | 'F16' | 'Q4_0' | 'Q8_0', values: Float32Array): Uint8Array {
  if (type === 'F32') return new Uint8Array(values.slice().buffer)
  if (type === 'F16') return new Uint8Array(halves(values).buffer)
  const blocks: Uint8Array[] = []
  for (let at = 0; at < values.length; at += 32) {
    const block = values.subarray(at, at + 32)
    const extreme = block.reduce((largest, value) => (Math.abs(value) > Math.abs(largest) ? value : largest), 0)
    const scale = type === 'Q4_0' ? extreme / -8 : Math.abs(extreme) / 127
    const codes = [...block].map((value) => (scale === 0 ? 0 : value / scale))
    const head = new Uint8Array(halves(Float32Array.of(scale)).buffer)
    if (type === 'Q8_0') blocks.push(head, Uint8Array.from(codes, Math.round))
    else {
      const nibbles = codes.map((code) => Math.max(0, Math.min(15, Math.floor(code + 8.5))))
      blocks.push(
        head,
        Uint8Array.from({ length: 16 }, (_, i) => nibbles[i]! | (nibbles[i + 16]! << 4)),
      )
    }
  }
  return Buffer.concat(blocks)
}

function halves(values: Float32Array): Uint16Array {
  const into = new Uint16Array(values.length)
  encodeHalves(values, into)
  return into
}

interface Converted {
  readonly arch: string
  /** Rows of queries and keys are stored in pairs. */
  readonly pairs?: boolean
  /** Normalisations after attention and MLP, not before. */
  readonly normsAfter?: boolean
  /** Normalisations are stored plus one. */
  readonly plusOne?: boolean
}

const architectures: Readonly<Record<string, Converted>> = {
  LlamaForCausalLM: { arch: 'llama', pairs: true },
  MistralForCausalLM: { arch: 'llama', pairs: true },
  Qwen2ForCausalLM: { arch: 'qwen2' },
  Qwen3ForCausalLM: { arch: 'qwen3' },
  Phi3ForCausalLM: { arch: 'phi3' },
  SmolLM3ForCausalLM: { arch: 'smollm3', pairs: true },
  GraniteForCausalLM: { arch: 'granite', pairs: true },
  Olmo2ForCausalLM: { arch: 'olmo2', normsAfter: true },
  Gemma3ForCausalLM: { arch: 'gemma3', normsAfter: true, plusOne: true },
}

const tensorNames: readonly [RegExp, string][] = [
  [/^model\.layers\.(\d+)\.self_attn\.([qk])_norm\./, 'blk.$1.attn_$2_norm.'],
  [/^model\.layers\.(\d+)\.self_attn\.qkv_proj\./, 'blk.$1.attn_qkv.'],
  [/^model\.layers\.(\d+)\.mlp\.gate_up_proj\./, 'blk.$1.ffn_up.'],
  [/^model\.layers\.(\d+)\.pre_feedforward_layernorm\./, 'blk.$1.ffn_norm.'],
  [/^model\.layers\.(\d+)\.post_feedforward_layernorm\./, 'blk.$1.post_ffw_norm.'],
  [/^model\.embed_tokens\./, 'token_embd.'],
  [/^model\.norm\./, 'output_norm.'],
  [/^lm_head\./, 'output.'],
  [/^model\.layers\.(\d+)\.input_layernorm\./, 'blk.$1.attn_norm.'],
  [/^model\.layers\.(\d+)\.post_attention_layernorm\./, 'blk.$1.ffn_norm.'],
  [/^model\.layers\.(\d+)\.self_attn\.o_proj\./, 'blk.$1.attn_output.'],
  [/^model\.layers\.(\d+)\.self_attn\.([qkv])_proj\./, 'blk.$1.attn_$2.'],
  [/^model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\./, 'blk.$1.ffn_$2.'],
]

interface ConvertOptions {
  /** Of matrices; vectors are F32. Default: F32. */
  type?: 'F32' | 'F16' | 'Q4_0' | 'Q8_0'
  metadata?: Record<string, GgufValue>
  /** The last change before the file is written. */
  edit?: ((tensors: GgufTensor[]) => GgufTensor[]) | undefined
}

/** Converts a Hugging Face directory as llama.cpp's convert_hf_to_gguf.py does, with its tokenizer. */
export async function toGguf(
  folder: string,
  { type = 'F32', metadata = {}, edit = (all) => all }: ConvertOptions = {},
): Promise<Buffer> {
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))
  const index = (() => {
    try {
      return Object.values(JSON.parse(readFileSync(join(folder, 'model.safetensors.index.json'), 'utf8')).weight_map) as string[]
    } catch {
      return ['model.safetensors']
    }
  })()
  await using files = await TensorFiles.open([...new Set(index)].map((file) => join(folder, file)))
  const { arch, pairs, normsAfter, plusOne } = architectures[config.architectures[0]]!
  const heads = { q: config.num_attention_heads, k: config.num_key_value_heads ?? config.num_attention_heads }
  const tensors: GgufTensor[] = []
  for (const { name, shape } of files.tensors) {
    if (name.endsWith('.inv_freq')) continue
    const values = new Float32Array(shape.reduce((product, dim) => product * dim, 1))
    await files.read(name, 0, values)
    const [, part] = /self_attn\.([qk])_proj\./.exec(name) ?? []
    if (plusOne && /norm\.weight$/.test(name)) for (const [i, value] of values.entries()) values[i] = value + 1
    const stored = pairs && part ? paired(values, shape, heads[part as 'q' | 'k']) : values
    const own = shape.length > 1 ? type : 'F32'
    const afterAttention = normsAfter ? name.replace('.post_attention_layernorm.', '.post_attention_norm.') : name
    const short = afterAttention.replace(/^model\.layers\.(\d+)\.post_attention_norm/, 'blk.$1.post_attention_norm')
    const renamed = tensorNames.reduce((text, [from, to]) => text.replace(from, to), short)
    tensors.push({ name: renamed, type: ggmlTypes[own], dims: [...shape].reverse(), data: encodeGgml(own, stored) })
  }
  const rope = { ...config.rope_scaling, ...config.rope_parameters }
  for (const kind of ['long', 'short'])
    if (rope[`${kind}_factor`]) {
      const factors = Float32Array.from(rope[`${kind}_factor`])
      const data = new Uint8Array(factors.buffer)
      tensors.push({ name: `rope_factors_${kind}.weight`, type: ggmlTypes.F32, dims: [factors.length], data })
    }
  return ggufFile({ ...modelMetadata(arch, config), ...tokenizerMetadata(folder, config), ...metadata }, edit(tensors))
}

/** Vocabulary and merges of tokenizer.json; SentencePiece's merges become scores. */
// biome-ignore lint/suspicious/noExplicitAny: a config.json
function tokenizerMetadata(folder: string, config: any): Record<string, GgufValue> {
  if (!existsSync(join(folder, 'tokenizer.json')))
    return {
      'tokenizer.ggml.model': { text: 'gpt2' },
      'tokenizer.ggml.pre': { text: 'qwen2' },
      'tokenizer.ggml.tokens': { texts: ['t', '1', ...Array.from({ length: config.vocab_size - 2 }, (_, id) => `t${id}`)] },
      'tokenizer.ggml.token_type': { i32s: Array.from({ length: config.vocab_size }, () => 1) },
      'tokenizer.ggml.merges': { texts: ['t 1'] },
      'tokenizer.ggml.eos_token_id': { u32: 0 },
    }
  const json = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8'))
  const vocab: [string, number][] = [...Object.entries<number>(json.model.vocab)]
  for (const { content, id } of json.added_tokens) vocab.push([content, id])
  const tokens: string[] = []
  for (const [text, id] of vocab) tokens[id] = text
  while (tokens.length < config.vocab_size) tokens.push(`[PAD${tokens.length}]`)
  const special = new Set<string>(json.added_tokens.map(({ content }: { content: string }) => content))
  const isSentencePiece = json.model.byte_fallback === true
  const ranks = new Map<string, number>(json.model.merges.map((pair: string[], rank: number) => [pair.join(''), rank]))
  const typeOf = (text: string) => {
    if (text === '<unk>') return 2
    if (/^\[PAD\d+\]$/.test(text)) return 5
    return special.has(text) ? 3 : /^<0x..>$/.test(text) ? 6 : 1
  }
  const regex = JSON.stringify(json.pre_tokenizer)
  const own: Record<string, GgufValue> = isSentencePiece
    ? { 'tokenizer.ggml.scores': { f32s: tokens.map((text) => -(ranks.get(text) ?? 1e4)) } }
    : {
        'tokenizer.ggml.pre': { text: regex.includes('{1,3}') ? 'llama-bpe' : 'qwen2' },
        'tokenizer.ggml.merges': { texts: json.model.merges.map((pair: string[]) => pair.join(' ')) },
      }
  return {
    'tokenizer.ggml.model': { text: isSentencePiece ? 'llama' : 'gpt2' },
    'tokenizer.ggml.tokens': { texts: tokens },
    'tokenizer.ggml.token_type': { i32s: tokens.map(typeOf) },
    'tokenizer.ggml.bos_token_id': { u32: config.bos_token_id },
    'tokenizer.ggml.eos_token_id': { u32: config.eos_token_id },
    ...own,
  }
}

/** Rows i and i + n/2 of a head become neighbours. */
function paired(values: Float32Array, [rows = 0, columns = 1]: readonly number[], heads: number): Float32Array {
  const half = rows / heads / 2
  const out = new Float32Array(values.length)
  for (let row = 0; row < rows; row++) {
    const [head, inHead] = [Math.floor(row / (2 * half)), row % (2 * half)]
    const to = head * 2 * half + 2 * (inHead % half) + Math.floor(inHead / half)
    out.set(values.subarray(row * columns, (row + 1) * columns), to * columns)
  }
  return out
}

// biome-ignore lint/suspicious/noExplicitAny: a config.json
function modelMetadata(arch: string, config: any): Record<string, GgufValue> {
  const global = config.rope_parameters?.full_attention ?? config.rope_parameters ?? {}
  const rope = { ...config.rope_scaling, ...global }
  const kind = rope.rope_type ?? rope.type ?? 'default'
  const original = rope.original_max_position_embeddings ?? config.original_max_position_embeddings
  const headDim = config.head_dim ?? config.hidden_size / config.num_attention_heads
  const numbers: Record<string, GgufValue> = {
    block_count: { u32: config.num_hidden_layers },
    context_length: { u32: config.max_position_embeddings },
    embedding_length: { u32: config.hidden_size },
    feed_forward_length: { u32: config.intermediate_size },
    'attention.head_count': { u32: config.num_attention_heads },
    'attention.head_count_kv': { u32: config.num_key_value_heads ?? config.num_attention_heads },
    'attention.layer_norm_rms_epsilon': { f32: config.rms_norm_eps },
    'rope.freq_base': { f32: rope.rope_theta ?? config.rope_theta ?? 10_000 },
    ...(config.head_dim ? { 'attention.key_length': { u32: headDim }, 'attention.value_length': { u32: headDim } } : {}),
    ...(arch === 'phi3' ? { 'rope.dimension_count': { u32: headDim * (rope.partial_rotary_factor ?? 1) } } : {}),
    ...(arch === 'phi3' || arch === 'gemma3' ? { 'attention.sliding_window': { u32: config.sliding_window ?? 0 } } : {}),
    ...(kind === 'linear' || kind === 'yarn'
      ? { 'rope.scaling.type': { text: kind }, 'rope.scaling.factor': { f32: rope.factor } }
      : {}),
    ...(original && kind !== 'llama3' ? { 'rope.scaling.original_context_length': { u32: original } } : {}),
  }
  if (arch === 'granite') {
    numbers['attention.scale'] = { f32: config.attention_multiplier }
    numbers.embedding_scale = { f32: config.embedding_multiplier }
    numbers.residual_scale = { f32: config.residual_multiplier }
    numbers.logit_scale = { f32: config.logits_scaling }
  }
  if (kind === 'longrope') {
    const stretch = config.max_position_embeddings / original
    numbers['rope.scaling.attn_factor'] = { f32: stretch <= 1 ? 1 : Math.sqrt(1 + Math.log(stretch) / Math.log(original)) }
  }
  const named = Object.entries(numbers).map(([key, value]) => [`${arch}.${key}`, value])
  return { 'general.architecture': { text: arch }, ...Object.fromEntries(named) }
}
