import { expect, it } from 'vitest'
import { phaseOf } from '../../../../core/policy/serving/phase.ts'

it.each([
  ['one row that is returned', 1, 1, 'decode'],
  ['a draft whose rows are all returned', 5, 5, 'verify'],
  ['the longest draft', 16, 16, 'verify'],
  ['a draft that is as long as a prompt', 17, 17, 'prefill'],
  ['rows of which some are not returned', 5, 1, 'prefill'],
  ['one row that is not returned', 1, 0, 'prefill'],
] as const)('%s: %i rows, %i returned, are %s', (_, rows, returned, phase) => {
  expect(phaseOf(rows, returned, 16)).toBe(phase)
})
