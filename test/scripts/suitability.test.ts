import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { projectRoot } from '../../core/kit/base/version.ts'
import { trainedSuitability } from '../../core/policy/pice/suitability.ts'
import { agreement } from '../../scripts/suitability/agreement.ts'
import { handLabels } from '../../scripts/suitability/data.ts'
import { trainWeights } from '../../scripts/suitability/logistic-regression.ts'
import { ownExamples } from '../../scripts/suitability/own-examples.ts'

const labels = handLabels(fileURLToPath(new URL('../shared/data', projectRoot)))

// Also under CI=true: the labels may not be distributed with the repository.
if (!labels) console.log('skipped, missing: the labels by hand in ../shared/data/sot-router')

describe('the trained weights', () => {
  it.skipIf(!labels)('agree with labels by hand that they were not trained on, better than any constant', () => {
    const { vicuna, wizardlm } = labels!
    const both = agreement(trainedSuitability, [...vicuna, ...wizardlm])
    expect(both.f1).toBeGreaterThanOrEqual(0.75)
    expect(both.f1).toBeGreaterThan(both.f1Constant)
    expect(agreement(trainedSuitability, vicuna).f1).toBeGreaterThanOrEqual(0.9)
    expect(agreement(trainedSuitability, wizardlm).f1).toBeGreaterThanOrEqual(0.55)
  })
})

describe('training', () => {
  it('separates requests that it has seen, the same way each time', () => {
    const examples = ownExamples().filter((_, at) => at % 25 === 0)
    const weights = trainWeights(examples, 0.001)
    expect(agreement(weights, examples).f1).toBeGreaterThan(0.9)
    expect(trainWeights(examples, 0.001)).toEqual(weights)
  })
})

describe('agreement', () => {
  it('counts precision, recall and F1 of the suitable, and that of a constant', () => {
    const examples = [
      { request: 'What are the main benefits of reading?', label: 1 },
      { request: 'How can I sleep better?', label: 0 },
      { request: 'What is 2 + 2?', label: 0 },
      { request: 'Write a program in Java.', label: 1 },
    ] as const
    expect(agreement(trainedSuitability, examples)).toMatchObject({
      n: 4,
      suitable: 2,
      precision: 0.5,
      recall: 0.5,
      f1: 0.5,
      f1Constant: 0.667,
    })
  })
})
