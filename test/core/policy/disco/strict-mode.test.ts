import fc from 'fast-check'
import { expect, it } from 'vitest'
import { deviceModes } from '../../../../core/kit/base/answer-modes.ts'
import { showsMore, strictEnough, strictModes } from '../../../../core/policy/disco/strict-mode.ts'

const strict = fc.constantFrom(...strictModes)

it('shows more in every mode that may ask a server, unless no text may leave, and in none that is as strict', () => {
  const of = (isPrivate: boolean, mode: 'private' | 'local') => deviceModes.filter((each) => showsMore(each, isPrivate, mode))
  expect(of(false, 'private')).toEqual(['cloud', 'sketch', 'cheap', 'fast', 'auto'])
  expect(of(true, 'private')).toEqual([])
  expect(of(false, 'local')).toEqual(['private', 'cloud', 'sketch', 'cheap', 'fast', 'auto'])
  expect(of(true, 'local')).toEqual(of(false, 'local'))
})

it('never answers what a rule is for in a mode that shows more than the rule allows', () => {
  fc.assert(
    fc.property(strict, fc.boolean(), fc.boolean(), fc.boolean(), (mode, hat, smallModel, isPrivate) => {
      const chosen = strictEnough(mode, { hat, smallModel })
      return !showsMore(chosen, isPrivate, mode)
    }),
  )
})

it('takes the small model where the split one is missing, and never the other way', () => {
  expect(strictEnough('private', { hat: false, smallModel: true })).toBe('local')
  expect(strictEnough('private', { hat: true, smallModel: true })).toBe('private')
  expect(strictEnough('private', { hat: false, smallModel: false })).toBe('private')
  expect(strictEnough('local', { hat: true, smallModel: false })).toBe('local')
})
