import { DecoderConfig, describeDecoder, parseDecoderConfig, windows } from './decoder-config.ts'
import type { Family } from './family.ts'

/** Mistral 7B, Nemo and Small, and Ministral 8B: Llama, of which layers may attend to a window. */
export const mistral: Family = {
  architectures: ['MistralForCausalLM', 'MinistralForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(DecoderConfig, raw)
    return describeDecoder('mistral', config, { layer: windows(config, () => true) })
  },
}
