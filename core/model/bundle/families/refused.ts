interface RefusedFamily {
  readonly architectures: RegExp
  /** What it has, and Brim lacks. */
  readonly missing: string
  /** A published checkpoint. */
  readonly nearest: string
}

/** Families that are asked for and not supported: the first that fits. */
export const refusedFamilies: readonly RefusedFamily[] = [
  { architectures: /^GptOss/, missing: 'experts in MXFP4, which the CPU does not compute', nearest: 'Qwen/Qwen3-14B' },
  { architectures: /^Qwen3Next/, missing: 'experts', nearest: 'Qwen/Qwen3.5-9B' },
  { architectures: /^Qwen\d.*Moe/, missing: 'experts', nearest: 'Qwen/Qwen3-8B' },
  { architectures: /^Qwen.*VL/, missing: 'images', nearest: 'Qwen/Qwen3-4B' },
  { architectures: /^Mixtral/, missing: 'experts', nearest: 'mistralai/Mistral-Nemo-Instruct-2407' },
  { architectures: /^(Mistral3|Ministral3)/, missing: 'images', nearest: 'mistralai/Ministral-8B-Instruct-2410' },
  { architectures: /^Gemma2/, missing: 'caps of scores and logits', nearest: 'google/gemma-3-1b-it' },
  { architectures: /^Gemma3ForConditional/, missing: 'images', nearest: 'google/gemma-3-1b-it' },
  {
    architectures: /^Gemma(3n|4)/,
    missing: 'embeddings of each layer, and KV that layers share',
    nearest: 'google/gemma-3-1b-it',
  },
  { architectures: /^Llama4/, missing: 'experts', nearest: 'meta-llama/Llama-3.2-3B-Instruct' },
  {
    architectures: /^Phi(4Multimodal|4MM|MoE)/,
    missing: 'images and sound, or experts',
    nearest: 'microsoft/Phi-4-mini-instruct',
  },
  {
    architectures: /^Granite(Moe|.*Hybrid)/,
    missing: 'experts or recurrent layers',
    nearest: 'ibm-granite/granite-3.3-2b-instruct',
  },
  {
    architectures: /^Olmo(3|e)/,
    missing: 'rotary tables by kind of layer, or experts',
    nearest: 'allenai/OLMo-2-0425-1B-Instruct',
  },
  { architectures: /^(Deepseek|Kimi|Glm4Moe)/, missing: 'experts', nearest: 'deepseek-ai/DeepSeek-R1-Distill-Qwen-7B' },
  {
    architectures: /^(Mamba|FalconMamba|Jamba|NemotronH|Lfm2)/,
    missing: 'layers with a recurrent state',
    nearest: 'Qwen/Qwen3-1.7B',
  },
]
