import { expect, it } from 'vitest'
import { phaseOf } from '../../../../core/policy/serving/phase.ts'

it.each([
  ['one row that comes back', 1, 1, 'decode'],
  ['a draft whose rows all come back', 5, 5, 'verify'],
  ['the longest draft', 16, 16, 'verify'],
  ['a draft that is as long as a prompt', 17, 17, 'prefill'],
  ['rows of which some do not come back', 5, 1, 'prefill'],
  ['one row that does not come back', 1, 0, 'prefill'],
] as const)('%s: %i rows, %i returned, are %s', (_, rows, returned, phase) => {
  expect(phaseOf(rows, returned, 16)).toBe(phase)
})
