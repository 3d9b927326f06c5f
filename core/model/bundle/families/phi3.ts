import { DecoderConfig, describeDecoder, parseDecoderConfig, windows } from './decoder-config.ts'
import type { Family } from './family.ts'

/** Phi-3, Phi-3.5-mini, Phi-4 and Phi-4-mini: tensors of several projections, and heads that are rotated in part. */
export const phi3: Family = {
  architectures: ['Phi3ForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(DecoderConfig, raw)
    return describeDecoder('phi3', config, {
      names: { qkv: ['self_attn.qkv_proj'], gateUp: ['mlp.gate_up_proj'] },
      layer: windows(config, () => true),
    })
  },
}
