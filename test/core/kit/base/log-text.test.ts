import { describe, expect, it } from 'vitest'
import { errorFields } from '../../../../core/kit/base/error-fields.ts'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { logText } from '../../../../core/kit/base/log-text.ts'

const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.5:1883'), { code: 'ECONNREFUSED', syscall: 'connect' })

describe('errorFields', () => {
  it('names code, message, hint and causes of our own errors, without a stack', () => {
    const error = new BrimError('BROKER_UNREACHABLE', 'broker a does not respond', { cause: refused, hint: 'is it running?' })
    expect(errorFields(error)).toEqual({
      type: 'BrimError',
      code: 'BROKER_UNREACHABLE',
      message: 'broker a does not respond',
      hint: 'is it running?',
      cause: 'connect ECONNREFUSED 10.0.0.5:1883',
    })
  })

  it.each([
    ['a refused connection', refused],
    ['all addresses of a host', new AggregateError([refused, refused], '')],
    ['a rejected login of MQTT', Object.assign(new Error('Connection refused: Not authorized'), { code: 5 })],
    ['TLS', Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })],
    ['TLS on a plain port', Object.assign(new Error('wrong version number'), { code: 'ERR_SSL_WRONG_VERSION_NUMBER' })],
  ])('has no stack for %s', (_, error) => {
    expect(errorFields(error)).toEqual({
      type: error.name,
      message: expect.stringMatching(/./),
      ...('code' in error && { code: error.code }),
    })
  })

  it.each([
    ['a mistake in the code', new TypeError('x is undefined')],
    ['a mistake among failures of the system', new AggregateError([refused, new TypeError('x is undefined')], 'failed')],
    ['a wrong argument of a Node function', Object.assign(new TypeError('invalid'), { code: 'ERR_INVALID_ARG_TYPE' })],
  ])('has a stack for %s', (_, error) => {
    expect(errorFields(error)).toMatchObject({ stack: expect.stringContaining('log-text.test.ts') })
  })

  it('follows causes that refer to each other', () => {
    const [first, second] = [new Error('a'), new Error('b')]
    Object.assign(first, { cause: second })
    Object.assign(second, { cause: first })
    expect(errorFields(first)).toMatchObject({ message: 'a', cause: 'b' })
  })
})

describe('logText', () => {
  const line = {
    level: 40,
    time: '2026-05-04T09:30:00.125Z',
    device: 'jetson-01',
    component: 'link',
    msg: 'unreachable, retrying',
  }

  it('is one line with time, level, component, message and fields', () => {
    expect(logText({ ...line, failures: 3, url: 'mqtt://a b', open: { a: 1 } })).toBe(
      '2026-05-04T09:30:00.125Z WARN  link: unreachable, retrying device=jetson-01 failures=3 url="mqtt://a b" open={"a":1}\n',
    )
  })

  it('adds what failed, why and what to try, on the same line', () => {
    const err = { type: 'BrimError', code: 'LINK_LOST', message: 'the link\nbroke', cause: 'reset', hint: 'retry' }
    expect(logText({ ...line, err })).toBe(
      '2026-05-04T09:30:00.125Z WARN  link: unreachable, retrying device=jetson-01; error: the link broke [LINK_LOST]; why: reset; try: retry\n',
    )
  })

  it('puts the stack of an unexpected error on lines of its own', () => {
    const text = logText({ ...line, level: 50, err: errorFields(new TypeError('x is undefined')) })
    expect(text).toMatch(/ERROR link: .*; error: x is undefined\n {4}TypeError: x is undefined\n {4}at /)
  })
})
