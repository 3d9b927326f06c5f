import { expect, it } from 'vitest'
import { shareOpenFiles } from '../../../../core/policy/admission/open-files.ts'

const wanted = { mqtt: 8_000, http: 4_000 }

it.each([
  ['no limit of open files', Number.POSITIVE_INFINITY, wanted],
  ['a limit that is high enough', 16_100, wanted],
  ['half of what is needed', 8_100, { mqtt: 4_000, http: 2_000 }],
  ['less than the reserve: a few all the same', 50, { mqtt: 16, http: 16 }],
])('with %s', (_name, maxFiles, shares) => {
  expect(shareOpenFiles(wanted, maxFiles, 100)).toEqual(shares)
})

it('never raises what is configured', () => {
  expect(shareOpenFiles({ mqtt: 3, http: 5 }, 10, 100)).toEqual({ mqtt: 3, http: 5 })
})
