import type { TensorInfo } from '../safetensors.ts'

/** What a family's GGUF files have otherwise than its Hugging Face checkpoints. */
export interface GgufNaming {
  /** Heads whose rows are in pairs for rotation; undefined where rows are in Hugging Face's order. */
  readonly pairedHeads?: { readonly queries: number; readonly keys: number }
  /** Normalisations have one more than in Hugging Face. */
  readonly normsPlusOne?: boolean
  /** Names of blk.N.… that differ from the common ones. */
  readonly names?: Readonly<Record<string, string>>
}

const globalNames: Readonly<Record<string, string>> = {
  'token_embd.weight': 'model.embed_tokens.weight',
  'output_norm.weight': 'model.norm.weight',
  'output.weight': 'lm_head.weight',
}

const layerNames: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_qkv: 'self_attn.qkv_proj',
  attn_output: 'self_attn.o_proj',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
}

/** A tensor under its name in Hugging Face's checkpoints, where there is one, and how its values differ from theirs. */
export function renamed(tensor: TensorInfo, { pairedHeads, normsPlusOne, names = {} }: GgufNaming): TensorInfo {
  const [, layer, part = '', suffix] = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(tensor.name) ?? []
  const known = names[part] ?? layerNames[part]
  const name = layer === undefined || known === undefined ? globalNames[tensor.name] : `model.layers.${layer}.${known}.${suffix}`
  if (name === undefined) return tensor
  const heads = part === 'attn_q' ? pairedHeads?.queries : part === 'attn_k' ? pairedHeads?.keys : undefined
  const isShifted = normsPlusOne && /norm\.weight$/.test(tensor.name)
  return { ...tensor, name, ...(heads ? { pairedHeads: heads } : {}), ...(isShifted ? { shift: -1 } : {}) }
}
