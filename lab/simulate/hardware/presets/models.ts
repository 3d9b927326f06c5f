import type { ModelShape } from '../model-shape.ts'
import { presetNamed } from './preset-named.ts'

type Figures = readonly [
  name: string,
  layers: number,
  hidden: number,
  heads: number,
  kvHeads: number,
  feedForward: number,
  vocabulary: number,
  repository: string,
]

/** Of the models' config.json; fp16. */
const gated: readonly Figures[] = [
  ['llama2-7b', 32, 4096, 32, 32, 11_008, 32_000, 'meta-llama/Llama-2-7b-hf'],
  ['llama2-13b', 40, 5120, 40, 40, 13_824, 32_000, 'meta-llama/Llama-2-13b-hf'],
  ['llama2-70b', 80, 8192, 64, 8, 28_672, 32_000, 'meta-llama/Llama-2-70b-hf'],
  ['llama3-8b', 32, 4096, 32, 8, 14_336, 128_256, 'meta-llama/Meta-Llama-3-8B-Instruct'],
  ['llama3-70b', 80, 8192, 64, 8, 28_672, 128_256, 'meta-llama/Meta-Llama-3-70B-Instruct'],
  ['vicuna-68m', 2, 768, 12, 12, 3072, 32_000, 'double7/vicuna-68m'],
  ['vicuna-7b', 32, 4096, 32, 32, 11_008, 32_000, 'lmsys/vicuna-7b-v1.5'],
  ['vicuna-13b', 40, 5120, 40, 40, 13_824, 32_000, 'lmsys/vicuna-13b-v1.5'],
  ['qwen2-7b', 28, 3584, 28, 4, 18_944, 152_064, 'Qwen/Qwen2-7B-Instruct'],
  ['qwen2.5-7b', 28, 3584, 28, 4, 18_944, 152_064, 'Qwen/Qwen2.5-7B-Instruct'],
  ['qwen2.5-14b', 48, 5120, 40, 8, 13_824, 152_064, 'Qwen/Qwen2.5-14B-Instruct'],
  ['qwen2.5-32b', 64, 5120, 40, 8, 27_648, 152_064, 'Qwen/Qwen2.5-32B-Instruct'],
  ['qwen2.5-72b', 80, 8192, 64, 8, 29_568, 152_064, 'Qwen/Qwen2.5-72B-Instruct'],
]

/** One matrix is embedding and head. */
const tied: readonly Figures[] = [
  ['qwen1.5-0.5b', 24, 1024, 16, 16, 2816, 151_936, 'Qwen/Qwen1.5-0.5B-Chat'],
  ['qwen2.5-0.5b', 24, 896, 14, 2, 4864, 151_936, 'Qwen/Qwen2.5-0.5B-Instruct'],
  ['qwen2.5-1.5b', 28, 1536, 12, 2, 8960, 151_936, 'Qwen/Qwen2.5-1.5B-Instruct'],
  ['qwen2.5-3b', 36, 2048, 16, 2, 11_008, 151_936, 'Qwen/Qwen2.5-3B-Instruct'],
]

/** The demonstration models, which Brim's engine computes in fp32. */
const demonstration: readonly Figures[] = [
  ['brim-demo', 12, 128, 4, 2, 384, 4096, 'models/demo/llm'],
  ['brim-demo-slm-deep', 6, 48, 3, 1, 128, 4096, 'models/demo/slm-deep'],
  ['brim-demo-slm-wide', 2, 64, 4, 2, 128, 4096, 'models/demo/slm-wide'],
]

/** Two matrices in a feed-forward layer of four times the width; embedding and head are one. */
const bloom: readonly Figures[] = [
  ['bloom-560m', 24, 1024, 16, 16, 4096, 250_880, 'bigscience/bloom-560m'],
  ['bloom-1.1b', 24, 1536, 16, 16, 6144, 250_880, 'bigscience/bloom-1b1'],
]

function shapeOf(
  [name, layers, hidden, heads, kvHeads, feedForward, vocabulary, repository]: Figures,
  tiesEmbedding: boolean,
  feedForwardMatrices: 2 | 3,
): ModelShape {
  return {
    name,
    layers,
    hidden,
    heads,
    kvHeads,
    headDim: hidden / heads,
    feedForward,
    feedForwardMatrices,
    vocabulary,
    tiesEmbedding,
    bytesPerWeight: 2,
    bytesPerKvValue: 2,
    source: `config.json of ${repository}`,
  }
}

export const models: readonly ModelShape[] = [
  ...gated.map((figures) => shapeOf(figures, false, 3)),
  ...tied.map((figures) => shapeOf(figures, true, 3)),
  ...bloom.map((figures) => shapeOf(figures, true, 2)),
  ...demonstration.map((figures) => ({ ...shapeOf(figures, true, 3), bytesPerWeight: 4, bytesPerKvValue: 4 })),
]

/** @throws BrimError USAGE */
export const modelNamed = (name: string): ModelShape => presetNamed(models, 'model', name)
