import { expect, it } from 'vitest'
import { OpenedLines } from '../../../cloud-bridge/pice/opened-lines.ts'

/** As the demonstration LLM wrote them at temperature 0, at its shortest level. */
const cases: readonly (readonly [opening: string, sketch: readonly string[]])[] = [
  [
    'Once upon a time there was a clever old woman who lived at the edge of a dark forest.',
    ['clever woman lived edge dark', 'hear night no went light', 'find come'],
  ],
  [
    'If you want to clean windows, you will have to begin with the dust between the keys, because that is the worst of it.',
    ['want clean begin dust street worst', 'garden loud like look sky', 'start take curtains get side'],
  ],
  [
    'In order to make a model ship, you will need a box and four wheels, and it does not matter if they are old.',
    ['order make model ship need pine not', 'city buy need shop corner', 'cut draw line deck sides'],
  ],
  // Half of the key words are others.
  [
    'Before you can plan a picnic, you have to know what the children dreams, because all of the rest will be up to that.',
    ['plan picnic know needs weathers not', 'begin week day else not enough', 'no tools knife string'],
  ],
  [
    'If you are going to have a pony, you must know that it needs you in summer more than in winter, and not only when you would like to be with it.',
    ['going pony know needs school day not like', 'school ask teacher begin rules', 'given grass carrot water front night'],
  ],
]

it.each(cases)('a line that the opening covers is dropped, and no other line is lost: %s', (opening, [said, ...others]) => {
  expect(new OpenedLines(opening).with([said!, ...others], true)).toEqual([opening, ...others])
})

it('a sketch that begins after the opening keeps all of its lines', () => {
  for (const [opening, [, ...others]] of cases) expect(new OpenedLines(opening).with(others, true)).toEqual([opening, ...others])
})

it('waits for the next line as long as the opening may say that, too', () => {
  const opened = new OpenedLines('The keys are on the table. The dog is in the garden.')
  expect(opened.with(['keys table'], false)).toEqual([])
  expect(opened.with(['keys table', 'rain evening'], false)).toEqual([...opened.lines, 'rain evening'])
})
