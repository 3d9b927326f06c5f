import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SketchReader, sketchLines } from '../../../cloud-bridge/pice/sketch-reader.ts'

/** Pieces of replies as models write them, and of what could be mistaken for marks. */
const piece = fc.constantFrom(
  'tomatoes',
  ' ',
  '\n',
  '\r\n',
  '- ',
  '* ',
  '1. ',
  '12) ',
  '(a) ',
  '## ',
  '```',
  '<think>',
  '</think>',
  'Sketch:',
  '**',
  'é',
  '🍅',
  ':',
)

describe('the lines of a sketch', () => {
  it('are the lines of the text', () => {
    expect(sketchLines('plant seeds warm earth\nwater every morning\n')).toEqual([
      'plant seeds warm earth',
      'water every morning',
    ])
  })

  it.each([
    ['blank lines but a break before the next', '\n\none\n   \n\ntwo\n', ['one', '\ntwo']],
    ['lines without a word', '---\none\n...\n- \ntwo', ['one', 'two']],
    ['a fence around all of them', '```text\none\ntwo\n```', ['one', 'two']],
    ['an introduction', 'Sure! Here is the sketch:\none\ntwo', ['one', 'two']],
    ['a title', 'Outline\none\ntwo', ['one', 'two']],
    ['reasoning', '<think>First\n1. I count.\n</think>\none\ntwo', ['one', 'two']],
    ['reasoning in one line', '<think>hm</think>one', ['one']],
  ])('come without %s', (_, text, lines) => {
    expect(sketchLines(text)).toEqual(lines)
  })

  it.each([
    ['bullets', '- one apple\n  * two pears\n• three plums\n– four nuts'],
    ['numbers', '1. one apple\n2) two pears\n(3) plums\nb) nuts\n四、李子\nStep 5: eat'],
    ['marks within marks', '- 1. one apple\n- [ ] pears\n> - plums'],
    ['headings and titles', '# Plants\n**Water**: every day\n1. **Light:** at noon'],
    ['rows of a table', 'fruit and price\n| fruit | price |\n|---|---|\n| pear | 2 |\n| pear | 2 |'],
    ['a ruler', 'one\n---\ntwo'],
    ['an announcement of the answer', 'Here are two tips:\n- one\n- two'],
  ])('keep their form: %s', (_, text) => {
    expect(sketchLines(text)).toEqual(text.split('\n'))
  })

  it('have a block of code as one line, complete or not', () => {
    const code = '```js\nlet a = 1\n\n  // - no bullet\nlet a = 1\n```'
    expect(sketchLines(`one\n\n${code}\ntwo`)).toEqual(['one', `\n${code}`, 'two'])
    expect(sketchLines('one\n```js\nlet a = 1')).toEqual(['one', '```js\nlet a = 1\n```'])
    const endless = new SketchReader()
    for (let lines = 0; lines < 5_000; lines++) endless.push(lines === 0 ? '```js\n' : `call(${lines})\n`)
    expect([endless.isTooLong, endless.isFull, endless.end()]).toEqual([true, true, []])
  })

  it.each([
    '2 cups flour',
    '1.5 litres milk',
    '-5 degrees',
    '3:30 train leaves',
    'A. Lincoln speech',
    'outline of law: two parts',
    '1990s music',
  ])('keep what is no mark: %s', (line) => {
    expect(sketchLines(`first\n${line}`)).toEqual(['first', line])
  })

  it('may be a single word, or none', () => {
    expect(sketchLines('Yes')).toEqual(['Yes'])
    expect(sketchLines('Sure\ntwo tickets')).toEqual(['Sure', 'two tickets'])
    expect(sketchLines('')).toEqual([])
    expect(sketchLines('\n- \n')).toEqual([])
  })

  it('are handed on as soon as they are complete', () => {
    const reader = new SketchReader()
    expect(reader.push('one ap')).toEqual([])
    expect(reader.push('ple\ntwo pe')).toEqual(['one apple'])
    expect(reader.push('ars')).toEqual([])
    expect(reader.end()).toEqual(['two pears'])
  })

  it('are the same however the text is cut into pieces', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const reader = new SketchReader()
        expect([...pieces.flatMap((part) => reader.push(part)), ...reader.end()]).toEqual(sketchLines(pieces.join('')))
      }),
    )
  })

  it('are bounded in number', () => {
    const text = Array.from({ length: 200 }, (_, at) => `line number ${at}`).join('\n')
    expect(sketchLines(text)).toHaveLength(200)
    const reader = new SketchReader({ maxLines: 20 })
    expect(reader.push(text)).toHaveLength(20)
    expect(reader.isFull).toBe(true)
    expect([...reader.push('\nmore\n'), ...reader.end()]).toEqual([])
  })

  it('end where the model writes lines again and again', () => {
    const reader = new SketchReader()
    expect(reader.push('one\ntwo\none\nthree\n')).toEqual(['one', 'two', 'three'])
    expect(reader.isFull).toBe(false)
    expect(reader.push('one\ntwo\nthree\nfour\n')).toEqual([])
    expect(reader.isFull).toBe(true)
  })

  it('are bounded in length, cut after a word', () => {
    const reader = new SketchReader()
    for (let times = 0; times < 10_000; times++) expect(reader.push('word after ')).toEqual([])
    const [line] = reader.push('\nnext\n')
    expect(line!.length).toBeLessThanOrEqual(400)
    expect(line).toMatch(/^(?:word after )+word(?: after)?$/)
    expect(sketchLines('𠀀'.repeat(5_000), { maxLineChars: 101 })).toEqual(['𠀀'.repeat(50)])
  })
})
