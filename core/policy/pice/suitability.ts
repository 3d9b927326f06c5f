import { bucketCount, featuresOf, type RequestFeatures, surfaceFeatures } from './request-features.ts'
import trained from './suitability-weights.json' with { type: 'json' }

/** Weights of a logistic regression over RequestFeatures. */
export interface SuitabilityWeights {
  readonly bias: number
  readonly surface: Float32Array
  readonly buckets: Float32Array
}

/** As scripts/suitability/train.ts writes them: a weight of a bucket is one signed byte times the scale. */
interface PackedWeights {
  readonly bias: number
  readonly surface: Readonly<Record<string, number>>
  readonly bucketScale: number
  /** Base64, one byte per bucket. */
  readonly buckets: string
}

export function unpackWeights({ bias, surface, bucketScale, buckets }: PackedWeights): SuitabilityWeights {
  const bytes = Int8Array.from(atob(buckets), (char) => char.charCodeAt(0))
  if (bytes.length !== bucketCount) throw new Error(`the weights have ${bytes.length} buckets, not ${bucketCount}`)
  return {
    bias,
    surface: Float32Array.from(surfaceFeatures, (name) => surface[name] ?? 0),
    buckets: Float32Array.from(bytes, (byte) => byte * bucketScale),
  }
}

/** Trained on free questions and our own: docs/sketches.md says how well they agree with labels by hand. */
export const trainedSuitability: SuitabilityWeights = unpackWeights(trained)

export const noWeights = (): SuitabilityWeights => ({
  bias: 0,
  surface: new Float32Array(surfaceFeatures.length),
  buckets: new Float32Array(bucketCount),
})

/** Logarithm of the odds that a request suits. */
export function logOdds({ bias, surface, buckets }: SuitabilityWeights, features: RequestFeatures): number {
  const fromSurface = features.surface.reduce((sum, value, at) => sum + value * surface[at]!, 0)
  const fromBuckets = features.buckets.reduce((sum, at) => sum + buckets[at]!, 0)
  return bias + fromSurface + fromBuckets * bucketValue(features)
}

export const probability = (odds: number): number => 1 / (1 + Math.exp(-odds))

/** The value of each n-gram that occurs. */
export const bucketValue = ({ buckets }: RequestFeatures): number => 1 / Math.sqrt(Math.max(1, buckets.length))

export interface LearningSettings {
  /** Confidence (Eq. 3) from which an expanded answer is as good as one by the LLM: the kind of request suits. */
  readonly goodConfidence: number
  /** Part of the error by which one answer corrects the log odds of its own request. */
  readonly rate: number
  /** How far what was learnt may move one weight. */
  readonly maxChange: number
  /** Probability of trying a request that is just about unsuitable; less for one that is clearly so. Else no error is ever found. */
  readonly exploration: number
}

export const defaultLearning: LearningSettings = { goodConfidence: 0.5, rate: 1, maxChange: 6, exploration: 0.05 }

/**
 * Good answers count so many times as much as poor ones: kinds that look unsuitable are hardly tried, so that few of theirs are seen, and
 * poor ones may come of one client's sampling.
 */
const goodWeight = 2

/** Confidence this far above or below `goodConfidence` leaves no doubt. */
const doubt = 0.2

export interface SuitabilityJudgement {
  readonly suits: boolean
  readonly probability: number
}

/**
 * Whether an answer to a request can be sketched and expanded, or is better written by the LLM alone: code and mathematics (PICE, V).
 * Begins with trained weights and learns from the confidence of expanded answers, because what suits depends on the models: the
 * weights of the n-grams and surface features of a request move towards what its answer has shown (normalised stochastic gradient).
 */
export class Suitability {
  readonly #trained: SuitabilityWeights
  readonly #settings: LearningSettings
  /** Added to the trained weights. */
  readonly #learnt: SuitabilityWeights

  /** @param learnt of an earlier Suitability; this one goes on with it */
  constructor(
    learnt: SuitabilityWeights = noWeights(),
    settings: Partial<LearningSettings> = {},
    weights: SuitabilityWeights = trainedSuitability,
  ) {
    this.#trained = weights
    this.#learnt = learnt
    this.#settings = { ...defaultLearning, ...settings }
  }

  /** @param random from 0 to 1: whether to try an unsuitable request. @param more log odds that its client has shown */
  judge(request: string, random: number, more = 0): SuitabilityJudgement {
    const features = featuresOf(request)
    if (features.buckets.length === 0) return { suits: false, probability: 0 }
    const p = probability(this.#logOdds(features) + more)
    return { suits: p >= 0.5 || random < this.#settings.exploration * (p / 0.5), probability: p }
  }

  /** @param confidence of the expanded answer to the request (Eq. 3), 0..1 */
  learn(request: string, confidence: number): void {
    const { goodConfidence, rate, maxChange } = this.#settings
    const target = Math.min(1, Math.max(0, (confidence - goodConfidence) / (2 * doubt) + 0.5))
    const features = featuresOf(request)
    const value = bucketValue(features)
    // The length of a request tells nothing about its kind.
    const kind = features.surface.map((each, at) => (surfaceFeatures[at] === 'words' ? 0 : each))
    const norm = kind.reduce((sum, each) => sum + each * each, features.buckets.length > 0 ? 1 : 0)
    if (norm === 0 || !Number.isFinite(target)) return
    const error = target - probability(this.#logOdds(features))
    const step = (rate * (error > 0 ? goodWeight : 1) * error) / norm
    const { surface, buckets } = this.#learnt
    const moved = (weight: number, by: number) => Math.min(maxChange, Math.max(-maxChange, weight + by))
    for (const [at, each] of kind.entries()) surface[at] = moved(surface[at]!, step * each)
    for (const at of features.buckets) buckets[at] = moved(buckets[at]!, step * value)
  }

  /** What was learnt of such a request, as log odds. */
  learntOdds(request: string): number {
    return logOdds(this.#learnt, featuresOf(request))
  }

  /** What was learnt, to be stored. */
  get learnt(): SuitabilityWeights {
    return this.#learnt
  }

  #logOdds(features: RequestFeatures): number {
    return (features.odds ?? logOdds(this.#trained, features)) + logOdds(this.#learnt, features)
  }
}
