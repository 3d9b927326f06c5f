import { bucketCount, featuresOf, type RequestFeatures, surfaceFeatures } from '../../core/policy/pice/request-features.ts'
import { bucketValue, logOdds, probability, type SuitabilityWeights } from '../../core/policy/pice/suitability.ts'

export interface LabelledRequest {
  readonly request: string
  readonly label: 0 | 1
}

const iterations = 400
const learningRate = 0.5

/**
 * Weights by AdaGrad over all examples at once, both classes weighing the same. Deterministic.
 * @param decay factor of the squared weights in the loss
 */
export function trainWeights(examples: readonly LabelledRequest[], decay: number): SuitabilityWeights {
  const rows = examples.map(({ request, label }) => ({ features: featuresOf(request), label }))
  const positives = rows.filter(({ label }) => label === 1).length
  const shares = [0.5 / (rows.length - positives), 0.5 / positives] as const
  let bias = 0
  const surface = new Float64Array(surfaceFeatures.length)
  const buckets = new Float64Array(bucketCount)
  const squares = { bias: 0, surface: new Float64Array(surface.length), buckets: new Float64Array(buckets.length) }
  for (let iteration = 0; iteration < iterations; iteration++) {
    const slope = { bias: 0, surface: surface.map((each) => decay * each), buckets: buckets.map((each) => decay * each) }
    const weights = { bias, surface: Float32Array.from(surface), buckets: Float32Array.from(buckets) }
    for (const { features, label } of rows) {
      const error = shares[label] * (probability(logOdds(weights, features)) - label)
      slope.bias += error
      addTo(slope.surface, slope.buckets, features, error)
    }
    squares.bias += slope.bias ** 2
    bias -= (learningRate * slope.bias) / Math.sqrt(squares.bias)
    descend(surface, slope.surface, squares.surface)
    descend(buckets, slope.buckets, squares.buckets)
  }
  return { bias, surface: Float32Array.from(surface), buckets: Float32Array.from(buckets) }
}

function addTo(surface: Float64Array, buckets: Float64Array, features: RequestFeatures, error: number): void {
  for (const [at, value] of features.surface.entries()) surface[at]! += error * value
  const value = bucketValue(features)
  for (const at of features.buckets) buckets[at]! += error * value
}

function descend(weights: Float64Array, slope: Float64Array, squares: Float64Array): void {
  for (const [at, each] of slope.entries()) {
    if (each === 0) continue
    squares[at]! += each ** 2
    weights[at]! -= (learningRate * each) / Math.sqrt(squares[at]!)
  }
}
