import { describe, expect, it } from 'vitest'
import { fitToRequest, formText, requestedForm } from '../../../../core/answer/sketch/requested-form.ts'

const formOf = (content: string, ...before: { role: string; content: string }[]) =>
  requestedForm([...before, { role: 'user', content }])

describe('the form that a request asks for', () => {
  it.each([
    ['Give me a numbered list of 5 tips with bold titles', { list: 'number', count: 5, hasTitles: true }],
    ['Three bullet points, please: three good reasons', { list: 'bullet', count: 3 }],
    ['Nenne zwölf Gründe als nummerierte Liste', { list: 'number' }],
    ['Réponds avec une liste à puces, titres en gras', { list: 'bullet', hasTitles: true }],
    ['Nenne 4 Punkte mit fetten Überschriften', { list: undefined, count: 4, hasTitles: true }],
    ['Una lista numerada con 4 consejos', { list: 'number', count: 4 }],
    ['用项目符号列出三点', { list: 'bullet', count: 3 }],
    ['番号付きで5つ', { list: 'number' }],
    ['Explain it without bullet points', { list: undefined, isPlain: true }],
    ["Don't use any headings, just tell me", { isPlain: true }],
    ['Bitte ohne Aufzählung', { isPlain: true }],
    ['不要用列表', { isPlain: true }],
  ])('is read: %s', (request, form) => {
    expect(formOf(request)).toMatchObject(form)
  })

  it.each([
    'Five bold ideas for a party',
    'How much is 5 times 3?',
    'Was 1.5 points a lot?',
    'Who dodged the bullet train crash?',
  ])('is none without such words: %s', (request) => {
    expect(formOf(request)).toMatchObject({
      hasTitles: false,
      isPlain: false,
      ...(!/bullet/.test(request) && { list: undefined }),
    })
  })

  it('is that of the system message, too, but not of earlier turns or what is pasted', () => {
    expect(formOf('Why?', { role: 'system', content: 'Always answer in bullet points.' }).list).toBe('bullet')
    expect(formOf('Why?', { role: 'user', content: 'Use bullet points.' }).list).toBeUndefined()
    expect(formOf(`Summarize:\n${'x '.repeat(2_000)}numbered list${' x'.repeat(2_000)}`).list).toBeUndefined()
  })

  it('is told to the model', () => {
    expect(formText(formOf('A numbered list of 5 tips with bold titles'))).toBe(
      'It is a numbered list of 5 points, each with a bold title. ',
    )
    expect(formText(formOf('No lists.'))).toMatch(/^It is plain text/)
    expect(formText(formOf('Why?'))).toBe('')
  })
})

describe('a sketch', () => {
  it('stays as it is where the request asks for nothing', () => {
    const lines = ['# a', '- b', '\nc', '```\nd\n```']
    expect(fitToRequest(lines, formOf('Why?'))).toEqual(lines)
  })

  it('has one kind of list, and keeps its nesting', () => {
    const lines = ['intro:', '- one', '  - nested', '* two']
    expect(fitToRequest(lines, formOf('numbered list'))).toEqual(['intro:', '1. one', '  - nested', '2. two'])
  })

  it('loses its marks where plain text is wanted, but not code and tables', () => {
    const lines = ['# a', '1. **B:** c', '> d', '**E**', '```\nf\n```', '| g |']
    expect(fitToRequest(lines, formOf('no lists'))).toEqual(['B: c', 'd', 'E', '```\nf\n```', '| g |'])
  })

  it('is refused where titles or points are missing', () => {
    expect(fitToRequest(['1. one', '2. **Two:** b'], formOf('a numbered list, titles in bold'))).toBeUndefined()
    expect(fitToRequest(['a', 'b', 'c', 'd', 'e'], formOf('bullets: two tips'))).toBeUndefined()
  })
})
