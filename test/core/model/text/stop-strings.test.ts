import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { StopStrings } from '../../../../core/model/text/stop-strings.ts'

/** Few letters, so that stop strings overlap with the text, with themselves and with each other. */
const letters = fc.string({ unit: fc.constantFrom('a', 'b', '😀'), maxLength: 12 })
const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '😀'), minLength: 1, maxLength: 4 }), { maxLength: 3 })

describe('stop strings', () => {
  it('end the text where the first complete one begins, for any pieces', () => {
    fc.assert(
      fc.property(stops, fc.array(letters, { maxLength: 6 }), (stopStrings, pieces) => {
        expect(run(stopStrings, pieces)).toEqual(cutByDefinition(stopStrings, pieces.join('')))
      }),
      {
        examples: [
          [
            ['abcd', 'bc'],
            ['ab', 'cd'],
          ],
        ],
      },
    )
  })

  it('hold back only text that could become a stop string', () => {
    fc.assert(
      fc.property(stops, fc.array(letters, { maxLength: 6 }), (stopStrings, pieces) => {
        const stream = new StopStrings(stopStrings)
        let seen = ''
        let delivered = ''
        for (const piece of pieces) {
          const step = stream.push(piece)
          if (step.stopped) return
          seen += piece
          delivered += step.text
          const held = seen.slice(delivered.length)
          expect(seen.startsWith(delivered)).toBe(true)
          if (held !== '') expect(stopStrings.some((stop) => stop !== held && stop.startsWith(held))).toBe(true)
        }
      }),
    )
  })

  it('release text at once if no stop string can begin', () => {
    const stream = new StopStrings(['\nUser:'])
    expect(stream.push('Hello\n')).toEqual({ text: 'Hello', stopped: false })
    expect(stream.push('Us')).toEqual({ text: '', stopped: false })
    expect(stream.push('ual')).toEqual({ text: '\nUsual', stopped: false })
    expect(stream.push('.\nUser')).toEqual({ text: '.', stopped: false })
    expect(stream.push(': next')).toEqual({ text: '', stopped: true })
    expect(stream.push('more')).toEqual({ text: '', stopped: true })
    expect(stream.end()).toBe('')
  })

  it('reject an empty string', () => {
    expect(() => new StopStrings(['a', ''])).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }))
  })
})

function run(stopStrings: string[], pieces: string[]): { text: string; stopped: boolean } {
  const stream = new StopStrings(stopStrings)
  let text = ''
  for (const piece of pieces) {
    const step = stream.push(piece)
    text += step.text
    if (step.stopped) return { text, stopped: true }
  }
  return { text: text + stream.end(), stopped: false }
}

/** Grows the text by one code unit at a time until some stop string is its end; the longest of those counts. */
function cutByDefinition(stopStrings: string[], text: string): { text: string; stopped: boolean } {
  for (let end = 1; end <= text.length; end++) {
    const complete = stopStrings.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)
    if (complete[0] !== undefined) return { text: text.slice(0, end - complete[0].length), stopped: true }
  }
  return { text, stopped: false }
}
