import { z } from 'zod'
import { DecoderConfig, describeDecoder, parseDecoderConfig, windows } from './decoder-config.ts'
import type { Family } from './family.ts'

export const QwenConfig = DecoderConfig.extend({
  use_sliding_window: z.boolean().default(false),
  /** Layers before it attend to all positions. */
  max_window_layers: z.int().min(0).default(28),
})

/** Layers with a window, of Qwen2 and Qwen3. */
export const qwenWindows = (config: z.infer<typeof QwenConfig>) =>
  config.use_sliding_window ? windows(config, (layer) => layer >= config.max_window_layers) : () => ({})

/** Qwen2 and Qwen2.5: Llama with biases on queries, keys and values. */
export const qwen2: Family = {
  architectures: ['Qwen2ForCausalLM'],
  read(raw) {
    const config = parseDecoderConfig(QwenConfig, raw)
    return describeDecoder('qwen2', config, { bias: { qkv: true }, layer: qwenWindows(config) })
  },
}
