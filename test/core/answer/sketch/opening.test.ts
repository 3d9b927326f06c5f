import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseLine } from '../../../../core/answer/sketch/line-form.ts'
import { afterOpening, mayEndBefore, openingLines, saidLines } from '../../../../core/answer/sketch/opening.ts'

describe('an opening', () => {
  it.each([
    ['The keys are here.', ' The dog', true],
    ['Is it here?', ' "Yes', true],
    ['It costs 3.', '5 euros', false],
    ['Ask Dr.', ' Smith', false],
    ['The keys are', ' here', false],
    ['The keys are here.', ' ', false],
    ['The keys are here', '.', false],
    ['The keys are here', '\n', false],
    ['The keys are here.\n\n', 'The dog', true],
    ['Here are five tips:', '\n\n1', true],
    ['1. **Sleep:** go to bed early', '\n2', true],
    ['钥匙在桌子上。', '狗', true],
    ['', 'The', false],
    ['---', '\nThe', false],
    ['Run this:\n```sh\nls', '\ncd', false],
    ['| a | b |', '\n| c', false],
  ])('%j may end before %j: %j', (text, next, expected) => expect(mayEndBefore(text, next)).toBe(expected))

  it('has lines as a sketch has them', () => {
    expect(openingLines('\n\nFive tips:\n\n1. Sleep.\n2. Rest.\n')).toEqual(['Five tips:', '\n1. Sleep.', '2. Rest.'])
    expect(openingLines('')).toEqual([])
    expect(openingLines('a\n\nb').map(parseLine)).toMatchObject([{ isApart: false }, { isApart: true, text: 'b' }])
  })

  it('says as many of the first lines as it has sentences, without a gap', () => {
    const says = (keyWords: string, text: string) => text.includes(keyWords)
    expect(saidLines('The keys. The dog.', ['keys', 'dog', 'rain'], says)).toBe(2)
    expect(saidLines('keys.', ['keys', 'keys', 'rain'], says)).toBe(1)
    expect(saidLines('Keys. The dog.', ['keys', 'dog'], says)).toBe(0)
    expect(saidLines('The keys. The dog.', ['keys'], says)).toBe(1)
  })

  it('keeps its white space, which what follows does not repeat', () => {
    const space = fc.constantFrom('', ' ', '\n', '\n\n')
    fc.assert(
      fc.property(space, space, (end, start) => {
        const all = `a${end}${afterOpening(`a${end}`, `${start}b`)}`
        expect(all).toMatch(/^a\s*b$/)
        const breaks = (text: string) => text.split('\n').length
        expect(breaks(all)).toBe(Math.max(breaks(end), breaks(start)))
        if (end !== '' || start !== '') expect(all).toMatch(/\s/)
      }),
    )
  })
})
