import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sketchLines } from '../../../../cloud-bridge/pice/sketch-reader.ts'
import { cleanExpansion, expansionRules, withoutCutSentence } from '../../../../core/answer/sketch/clean-expansion.ts'
import { FormJoin, isExpanded, keyWordsOf, parseLine, type SketchLine } from '../../../../core/answer/sketch/line-form.ts'

/** The answer of a sketch whose lines `write` writes out. */
function answerOf(sketch: string, write: (line: SketchLine) => string): string {
  const join = new FormJoin()
  const lines = sketchLines(sketch).map(parseLine)
  return lines.map((line) => join.push(line, isExpanded(line) ? write(line) : line.text)).join('')
}

const asSentence = (line: SketchLine) => `This is ${line.text}.`

describe('a line of a sketch', () => {
  it.each([
    ['plain words', { kind: 'text', mark: '', lead: '', text: 'plain words' }],
    ['  - two pears', { kind: 'bullet', indent: '  ', mark: '- ', text: 'two pears' }],
    ['3. **Sleep:** eight hours', { kind: 'number', mark: '3. ', lead: '**Sleep:** ', text: 'eight hours' }],
    ['- **Sleep** – eight hours', { kind: 'bullet', lead: '**Sleep** – ', text: 'eight hours' }],
    ['1. **睡眠**：八小时', { kind: 'number', lead: '**睡眠**：', text: '八小时' }],
    ['二、睡眠', { kind: 'number', mark: '二、', text: '睡眠' }],
    ['- [x] done', { kind: 'bullet', mark: '- [x] ', text: 'done' }],
    ['> said **so**', { kind: 'quote', mark: '> ', text: 'said **so**' }],
    ['## Plants', { kind: 'heading', mark: '## ', text: 'Plants' }],
    ['| a | b |', { kind: 'table', text: '| a | b |' }],
    ['Line 2: pears', { kind: 'text', mark: '', text: 'pears' }],
    ['1.5 litres', { kind: 'text', mark: '', text: '1.5 litres' }],
    ['\nafter a break', { isApart: true, kind: 'text', text: 'after a break' }],
  ])('has a form: %j', (written, form) => {
    expect(parseLine(written)).toMatchObject(form)
  })

  it('is written out where it has key words, and kept where it is a title, code, a table or announces a list', () => {
    const kept = ['# Plants', '**Plants**', '| a | b |', '```js\ncall()\n```', 'Five tips:', '五个建议：', '---']
    expect(kept.filter((line) => isExpanded(parseLine(line)))).toEqual([])
    expect(['words', '- Note:', '**Plants:** green', '> a word'].filter((line) => !isExpanded(parseLine(line)))).toEqual([])
  })

  it('is plain text for a small model', () => {
    expect(keyWordsOf(parseLine('  3. **Sleep:** **eight** hours'))).toBe('Sleep: eight hours')
    expect(keyWordsOf(parseLine('```js\nlet a\n```'))).toBe('let a')
  })
})

describe('an answer', () => {
  it('has numbers, titles and nesting of its sketch', () => {
    const sketch = 'Two tips:\n1. **Light:** noon\n   - a lamp\n2. **Water:** rain\n\nthat is all\nand no more'
    expect(answerOf(sketch, asSentence)).toBe(
      'Two tips:\n\n1. **Light:** This is noon.\n   - This is a lamp.\n2. **Water:** This is rain.\n\nThis is that is all. This is and no more.',
    )
  })

  it('has its headings, quotations, tables and code as they are', () => {
    const code = '```js\nlet a = 1\n  call(a)\n```'
    expect(answerOf(`# Use\nwords\n${code}\n> one\n> two\n\n| a | b |\n|---|---|\n| 1 | 2 |\nend`, asSentence)).toBe(
      `# Use\n\nThis is words.\n\n${code}\n\n> This is one.\n> This is two.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThis is end.`,
    )
  })

  it('has paragraphs, with a space between sentences where the language has one', () => {
    expect(answerOf('one\ntwo\n\nthree', asSentence)).toBe('This is one. This is two.\n\nThis is three.')
    expect(answerOf('雨\n风\nGPU', ({ text }) => `这是${text}。`)).toBe('这是雨。这是风。这是GPU。')
    expect(answerOf('비\n바람', ({ text }) => `${text}입니다.`)).toBe('비입니다. 바람입니다.')
    expect(answerOf('雨\nrain', ({ text }) => (text === 'rain' ? 'It rains.' : '下雨 (rain).'))).toBe('下雨 (rain). It rains.')
  })

  it('leaves a line without a text out', () => {
    expect(answerOf('one\ntwo\nthree', ({ text }) => (text === 'two' ? '' : asSentence({ text } as SketchLine)))).toBe(
      'This is one. This is three.',
    )
  })
})

const reply = fc
  .array(
    fc.constantFrom(
      ...['Water tomatoes.', 'water tomatoes', 'Sleep', '**', ': ', '\n', ' ', '- ', '1. ', 'Sure!', 'Here is the line: ', '```'],
      ...['"', '<think>', '</think>', 'It is 3.5 l. ', 'Dr. No', '喝水。', '！', '💧', '# ', '| a |', 'And more. ', 'x'],
    ),
    { maxLength: 24 },
  )
  .map((parts) => parts.join(''))

describe('no character of a candidate is lost', () => {
  it('but what a named rule removes', () => {
    fc.assert(
      fc.property(
        reply,
        fc.constantFrom('water tomatoes', 'Sleep: water', '喝水'),
        fc.constantFrom('', 'Sleep'),
        (text, line, title) => {
          const clean = cleanExpansion(text, line, title)
          expect(clean.pieces.map((piece) => piece.text).join('')).toBe(text)
          expect(clean.pieces.flatMap((piece) => (piece.rule ? [] : [piece.text])).join('')).toBe(clean.text)
          for (const { rule } of clean.pieces) if (rule) expect(expansionRules).toHaveProperty([rule])
          for (const piece of clean.pieces) if (piece.rule === 'space') expect(piece.text.trim()).toBe('')
          for (const piece of clean.pieces) if (piece.rule === 'mark') expect(piece.text).not.toMatch(/Water|喝水|more/)
        },
      ),
      { numRuns: 2_000 },
    )
  })

  it('when texts are joined: each is in the answer, in order', () => {
    const sketch = fc.array(
      fc.tuple(fc.constantFrom('', '- ', '1. ', '# ', '> ', '**T:** ', '  - ', '\n'), fc.string({ minLength: 1 })),
    )
    fc.assert(
      fc.property(sketch, (lines) => {
        const join = new FormJoin()
        const texts = lines.map(([mark, text]) => {
          const line = parseLine(`${mark}word`)
          return { line, text: text.trim(), joined: join.push(line, text) }
        })
        for (const { line, text, joined } of texts) {
          if (text === '' && line.lead === '') expect(joined).toBe('')
          else expect(joined.endsWith(line.mark + (text === '' ? line.lead.trim() : line.lead + text))).toBe(true)
        }
      }),
    )
  })
})

describe('a text that was cut', () => {
  it.each([
    ['Water them. Then', 'Water them.'],
    ['Water them.', 'Water them.'],
    ['Dr. No drinks 3.5', ''],
    ['He said "yes." And', 'He said "yes."'],
    ['喝水。然后', '喝水。'],
    ['', ''],
  ])('ends with its last full stop: %s', (text, wanted) => {
    expect(withoutCutSentence(text)).toBe(wanted)
  })

  it('is cut only where it goes to the end of the reply', () => {
    expect(cleanExpansion('Water tomatoes every', 'water tomatoes').reachesEnd).toBe(true)
    expect(cleanExpansion('Water tomatoes daily.\nPick the', 'water tomatoes').reachesEnd).toBe(false)
  })

  it('is without the title that its line has', () => {
    for (const text of ['Sleep: Go to bed.', '**Sleep:** Go to bed.', '**Sleep**: Go to bed.', 'sleep – Go to bed.'])
      expect(cleanExpansion(text, 'Sleep: bed at ten', 'Sleep: ').text).toBe('Go to bed.')
    expect(cleanExpansion('Sleep is good.', 'Sleep: bed at ten', 'Sleep: ').text).toBe('Sleep is good.')
  })
})
