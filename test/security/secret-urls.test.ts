import { describe, expect, it } from 'vitest'
import { BrimError, toErrorJson, toErrorText } from '../../core/kit/base/errors.ts'
import { createLogger } from '../../core/kit/base/logger.ts'
import { shownUrls } from '../../core/kit/base/shown-url.ts'

const secrets = ['ada', 'p4ssword', 's3cret', 'fr4gment']
const url = 'https://ada:p4ss@p4ssword@example.com:8443/v1/qwen?api=s3cret&x=s3cret#fr4gment'
const shown = 'https://example.com:8443/v1/qwen?…'
const expectNone = (text: string) => {
  for (const secret of secrets) expect(text).not.toContain(secret)
}

describe('a URL with a user and a query', () => {
  it.each([
    [`get ${url} failed`, `get ${shown} failed`],
    [JSON.stringify({ a: url, b: [url] }), JSON.stringify({ a: shown, b: [shown] })],
    ['mqtts://ada:p4ssword@10.0.0.5:8883', 'mqtts://10.0.0.5:8883'],
    [`${shown}: status 404`, `${shown}: status 404`],
    ['http://127.0.0.1:7070/v1 and no other', 'http://127.0.0.1:7070/v1 and no other'],
  ])('is shown without them: %s', (text, expected) => {
    expect(shownUrls(text)).toBe(expected)
    expect(shownUrls(expected)).toBe(expected)
  })

  it('stands in no line of a log, at any level, wherever the line names it', () => {
    const lines: string[] = []
    const tap = { minLevel: 20, write: (line: string) => void lines.push(line) }
    const logger = createLogger('silent', { home: url }, { tap })
    logger.child({ url }).debug({ nested: { input: { url } } }, `asking ${url}`)
    const cause = new TypeError(`Failed to parse ${url}`)
    logger.error({ err: new Error(url, { cause }) }, 'failed')
    expect(lines).toHaveLength(2)
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ home: shown })
    expectNone(lines.join())
  })

  it('stands in no error, hint or cause that is printed or sent', () => {
    const error = new BrimError('BRIDGE_UNREACHABLE', `no bridge responds at ${url}`, {
      cause: new Error(url),
      hint: `try ${url}`,
    })
    expect(error.message).toBe(`no bridge responds at ${shown}`)
    expectNone([toErrorText(error), JSON.stringify(toErrorJson(error)), JSON.stringify(toErrorJson(new Error(url)))].join())
  })
})

it('long texts are searched for URLs in linear time', () => {
  const long = `${'a.'.repeat(500_000)}://x ${'a://'.repeat(200_000)}`
  expect(shownUrls(long)).toBe(long)
})
