import { expect, it } from 'vitest'
import { Ewma } from '../../../../core/policy/estimate/ewma.ts'

it('counts the first sample whole, and then weighs the past by alpha', () => {
  const average = new Ewma(0.75)
  expect(average.value).toBeUndefined()
  for (const sample of [4, 8]) average.record(sample)
  expect(average.value).toBe(5)
})

it('caps an outlier by a multiple of the average, but not after an average of 0', () => {
  const average = new Ewma(0.5)
  for (const sample of [1, 100]) average.record(sample, 3)
  expect(average.value).toBe(2)
  const zero = new Ewma(0.5)
  for (const sample of [0, 10]) zero.record(sample, 3)
  expect(zero.value).toBe(5)
})

it('copies its state, so that original and copy change independently', () => {
  const first = new Ewma(0.5)
  first.record(1)
  const second = first.copy()
  second.record(3)
  expect([first.value, second.value]).toEqual([1, 2])
})
