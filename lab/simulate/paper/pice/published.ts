/** What PICE prints (§V). */

type Answering = readonly [answersPerMin: number, latencyS: number]

interface Published {
  readonly title: string
  /** Preset. */
  readonly model: string
  /** Billions of parameters. */
  readonly size: number
  /** Table I: of one stream, on two A100. */
  readonly tokensPerS: number
  /** Table III; edge-only: out of memory where it is missing. */
  readonly cloud: Answering
  readonly local?: Answering
  readonly routing: Answering
  readonly pice: Answering
}

export const published: readonly Published[] = [
  {
    title: 'Qwen2.5-72B',
    model: 'qwen2.5-72b',
    size: 72,
    tokensPerS: 18.19,
    cloud: [14.891, 138.62],
    routing: [14.86, 145.04],
    pice: [21.24, 97.34],
  },
  {
    title: 'Llama3-70B',
    model: 'llama3-70b',
    size: 70,
    tokensPerS: 18.82,
    cloud: [16.33, 121.54],
    routing: [13.79, 143.94],
    pice: [25.98, 75.15],
  },
  {
    title: 'Qwen2.5-32B',
    model: 'qwen2.5-32b',
    size: 32,
    tokensPerS: 22.13,
    cloud: [32.13, 72.32],
    routing: [30.04, 88.57],
    pice: [34.81, 61.22],
  },
  {
    title: 'Llama3-8B',
    model: 'llama3-8b',
    size: 8,
    tokensPerS: 76.5,
    cloud: [75.51, 28.57],
    local: [6.03, 804.21],
    routing: [69.55, 74.75],
    pice: [70.48, 30.21],
  },
  {
    title: 'Qwen2.5-7B',
    model: 'qwen2.5-7b',
    size: 7,
    tokensPerS: 84.28,
    cloud: [88.33, 30.88],
    local: [6.68, 801.23],
    routing: [69.55, 68.66],
    pice: [84.98, 31.78],
  },
  {
    title: 'Qwen2.5-1.5B',
    model: 'qwen2.5-1.5b',
    size: 1.5,
    tokensPerS: 183.33,
    cloud: [148.12, 23.71],
    local: [21.2, 210.38],
    routing: [133.31, 41.28],
    pice: [140.86, 26.19],
  },
]

export const publishedOf = (model: string): Published => published.find((each) => each.model === model)!

/** Table I, MMLU: the paper states no confidences (Eq. 3) of the small models. */
export const abilities = { 'qwen2.5-1.5b': 0.609, 'llama3-8b': 0.666, 'qwen2.5-7b': 0.742 }
