import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { coverage } from '../../../../core/policy/pice/coverage.ts'

describe('the coverage of a line by its expansion', () => {
  it('is the share of its key words that the text has', () => {
    expect(coverage('summer heat rest shade', 'In summer, rest in the shade before the heat.')).toBe(1)
    expect(coverage('small room put not need no space', 'You should leave the fox of the bell to that.')).toBe(0)
    expect(coverage('take chalk water rub', 'Take chalk and milk.')).toBe(0.5)
    expect(coverage('…', 'Anything.')).toBe(1)
  })

  it('knows a word in another inflection, and no word that only begins alike', () => {
    expect(coverage('boil wash walls', 'Boiling, washed and a wall.')).toBe(1)
    expect(coverage('Haus putzen', 'Häuser putzt man')).toBe(0.5)
    expect(coverage('cat computer international', 'category compost internet')).toBe(0)
  })

  it('counts scripts without spaces by character', () => {
    expect(coverage('天空蓝', '天空是蓝色的')).toBe(1)
    expect(coverage('天空蓝', '我不知道')).toBe(0)
  })

  it('is 1 of a text that has the line in it, and no more for repeating a word', () => {
    const text = fc.string()
    fc.assert(
      fc.property(text, text, text, (line, before, after) => {
        expect(coverage(line, `${before} ${line} ${after}`)).toBe(1)
        expect(coverage(line, `${after} ${after}`)).toBe(coverage(line, after))
      }),
    )
  })
})
