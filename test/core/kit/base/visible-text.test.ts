import { describe, expect, it } from 'vitest'
import { visibleLine, visibleText } from '../../../../core/kit/base/visible-text.ts'

describe('visibleText', () => {
  it('shows control characters, direction marks and lone surrogates as escapes', () => {
    expect(visibleText('\u001b]52;c;aGk=\u0007')).toBe('\\u001b]52;c;aGk=\\u0007')
    expect(visibleText('a\u202eb\u009bc\u2028d\u{e0041}\ud800')).toBe('a\\u202eb\\u009bc\\u2028d\\udb40\\udc41\\ud800')
  })

  it('leaves words, lines and emoji alone', () => {
    const text = 'Grüße, 日本, می‌خواهم 👩‍👧\n  next line'
    expect(visibleText(text)).toBe(text)
    expect(visibleText('a\r\nb\tc\rd')).toBe('a\nb    c\\u000dd')
  })

  it('keeps a JSON document valid and its meaning', () => {
    const value = { '\u009b2J': ['\u202e', '\u007f\u2028', 'a\tb\n\r'], tag: '\u{e0041}', half: '\ud800' }
    expect(JSON.parse(visibleText(JSON.stringify(value, null, 2)))).toEqual(value)
  })
})

it('visibleLine shows line ends too', () => {
  expect(visibleLine('ready\nerror: forged')).toBe('ready\\u000aerror: forged')
})
