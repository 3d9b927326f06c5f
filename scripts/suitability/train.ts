/**
 * Trains the model that decides which requests are sketched, writes core/policy/pice/suitability-weights.json, and prints how well it
 * agrees with labels by hand. See docs/sketches.md.
 *
 *     node dist/scripts/suitability/train.js [folder of the public sets]
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../core/kit/base/version.ts'
import { surfaceFeatures } from '../../core/policy/pice/request-features.ts'
import { type SuitabilityWeights, unpackWeights } from '../../core/policy/pice/suitability.ts'
import { agreement } from './agreement.ts'
import { handLabels, trainingRequests } from './data.ts'
import { trainWeights } from './logistic-regression.ts'

const decay = 0.001

const data = process.argv[2] ?? fileURLToPath(new URL('../shared/data', projectRoot))
const sources = trainingRequests(data)
const examples = sources.flatMap((each) => each.examples)
const packed = pack(trainWeights(examples, decay))
writeFileSync(
  fileURLToPath(new URL('core/policy/pice/suitability-weights.json', projectRoot)),
  `${JSON.stringify(packed, null, 2)}\n`,
)
for (const { source, examples } of sources) {
  const suitable = examples.filter(({ label }) => label === 1).length
  console.log(JSON.stringify({ source, requests: examples.length, suitable }))
}
const labels = handLabels(data)
if (labels) {
  const weights = unpackWeights(packed)
  for (const [name, set] of Object.entries({ ...labels, both: Object.values(labels).flat() }))
    console.log(JSON.stringify({ labels: name, ...agreement(weights, set) }))
}

function pack({ bias, surface, buckets }: SuitabilityWeights) {
  const round = (value: number) => Math.round(value * 1_000) / 1_000
  const bucketScale = buckets.reduce((max, weight) => Math.max(max, Math.abs(weight)), 0) / 127
  return {
    bias: round(bias),
    surface: Object.fromEntries(surfaceFeatures.map((name, at) => [name, round(surface[at]!)])),
    bucketScale: Number(bucketScale.toPrecision(6)),
    buckets: Buffer.from(Int8Array.from(buckets, (weight) => Math.round(weight / bucketScale)).buffer).toString('base64'),
  }
}
