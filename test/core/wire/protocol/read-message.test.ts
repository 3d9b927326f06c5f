import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { channels, dataMessages } from '../../../../core/wire/protocol/contract.ts'
import { Fault } from '../../../../core/wire/protocol/fault.ts'
import { ErrorResponse } from '../../../../core/wire/protocol/http/error-response.ts'
import { EnrolReply, EnrolRequest, GrantReply, GrantRequest, NonceReply } from '../../../../core/wire/protocol/identity.ts'
import { JobAddress, JobEvent, JobSubmission, ToJobDevice } from '../../../../core/wire/protocol/jobs.ts'
import { DeviceState, MessageFault, ToDevice } from '../../../../core/wire/protocol/messages.ts'
import { readMessage } from '../../../../core/wire/protocol/read-message.ts'
import { schemaOf } from '../../../../scripts/docs/asyncapi.ts'
import { mutated, secret, valid } from '../../../support/messages.ts'

const schemas: Record<string, z.ZodType> = {
  ...Object.fromEntries(
    [...channels.map(({ message }) => message), dataMessages.device, dataMessages.bridge].map(({ name, schema }) => [
      name,
      schema,
    ]),
  ),
  EnrolReply,
  EnrolRequest,
  NonceReply,
  ErrorResponse,
  GrantReply,
  GrantRequest,
  JobAddress,
  Fault,
}
const submissions = fc.constantFrom(
  { kind: 'slm.generate', input: { prompt: 'Can you', maxTokens: 4, stop: ['.'] }, device: 'jetson-01', priority: 7, key: 'a' },
  {
    kind: 'hat.verify',
    input: { messages: [{ role: 'user', content: 'Can you' }], continuation: ' book' },
    timeouts: { runS: 9 },
  },
  {
    kind: 'pice.expand',
    input: { sketches: [{ prompt: 'Why?', sketch: ['a', 'b'], sentences: [1], expectedTokens: 40 }] },
    disconnect: { keep: 'replacement' },
  },
  {
    kind: 'bundle.install',
    input: { modelId: 'ab'.repeat(32), manifestSha256: 'cd'.repeat(32), url: 'https://example.org/b' },
    device: 'jetson-01',
  },
)
const cases = [
  ...Object.entries(schemas).map(([name, schema]) => ({
    name,
    schema,
    messages: valid(schemaOf(schema)) as fc.Arbitrary<unknown>,
  })),
  { name: 'JobSubmission', schema: JobSubmission as z.ZodType, messages: submissions as fc.Arbitrary<unknown> },
]
const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
const at = '2026-01-02T03:04:05.678Z'

describe.each(cases)('$name', ({ schema, messages }) => {
  it('is read as its JSON Schema allows, with and without fields of a newer release', () => {
    fc.assert(
      fc.property(messages, (message) => {
        const plain = readMessage(schema, bytes(message))
        expect(plain).toMatchObject({ kind: 'message' })
        if (schema !== JobSubmission)
          expect(readMessage(schema, bytes({ ...(message as object), addedLater: [1] }))).toEqual(plain)
      }),
      { numRuns: 60 },
    )
  })

  it('is read, or rejected with a short reason that quotes no value, whatever its bytes', () => {
    let rejected = 0
    fc.assert(
      fc.property(mutated(messages), (payload) => {
        const read = readMessage(schema, payload)
        expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined()
        if (read.kind === 'message') return void JSON.stringify(read.message)
        rejected += 1
        expect(read.reason).toMatch(/^[^\n]{1,300}$/)
        expect(read.reason).not.toContain(secret)
      }),
      { numRuns: 250 },
    )
    expect(rejected).toBeGreaterThan(10)
  })
})

const attempt = { v: 1, bridge: 'bridge-1', job: '0123abcd-1', attempt: 1 }
const failed = { ...attempt, n: 2, at, type: 'failed', error: { code: 'MELTED', message: 'too hot' } }

it.each([
  ['a kind of job in a device state', DeviceState, { v: 1, state: 'ready', birth: 1, at, jobs: ['dream.up'] }],
  ['a kind of job in an attempt', ToJobDevice, { ...attempt, type: 'run', kind: 'dream.up', input: 1 }],
  ['a kind of failure', JobEvent, { ...failed, failure: 'melted' }],
  ['a topic', MessageFault, { v: 1, bridge: 'bridge-1', leaf: 'dreams', reason: 'none', at }],
  ['a code', ToDevice, { type: 'refused', request: 1, code: 'MELTED', message: 'too hot' }],
])('accepts %s of a newer release', (_, schema: z.ZodType, message) => {
  expect(readMessage(schema, bytes(message))).toEqual({ kind: 'message', message })
})

describe('an unreadable message', () => {
  const state = { v: 1, state: 'ready', birth: 1, at }
  it.each([
    ['not UTF-8', Buffer.from([0xff, 0xfe, 0x7b]), 'MESSAGE_INVALID', 'not UTF-8'],
    ['not JSON', bytes('ready'), 'MESSAGE_INVALID', 'not JSON'],
    ['empty', Buffer.alloc(0), 'MESSAGE_INVALID', 'not JSON'],
    ['not an object', bytes([]), 'MESSAGE_INVALID', 'the message: must be an object'],
    ['too deep', bytes({ ...state, more: JSON.parse('['.repeat(65) + ']'.repeat(65)) }), 'MESSAGE_INVALID', /deeper than 64/],
    ['a newer version', bytes({ ...state, v: 2 }), 'PROTOCOL_VERSION', /supports version 1$/],
    ['a newer version of another shape', bytes({ v: 2, everything: 'else' }), 'PROTOCOL_VERSION', /supports version 1$/],
    ['no version', bytes({ state: 'ready', birth: 1, at }), 'MESSAGE_INVALID', /^"v": must be 1/],
    ['a string in place of a number', bytes({ ...state, birth: 'one' }), 'MESSAGE_INVALID', '"birth": must be a number'],
    ['an infinite number', bytes(`{"v":1,"state":"ready","birth":1e999,"at":"${at}"}`), 'MESSAGE_INVALID', /^"birth": /],
    ['many problems', bytes({ v: 1, jobs: 1, agent: 2 }), 'MESSAGE_INVALID', /^"state": .*; "birth": .*; "at": .*; and 2 more$/],
  ] as const)('%s: the reason names the problem', (_, payload, code, reason) => {
    const read = readMessage(DeviceState, payload)
    expect(read).toMatchObject({
      kind: 'unreadable',
      code,
      reason: typeof reason === 'string' ? reason : expect.stringMatching(reason),
    })
  })

  it('may nest up to 64 levels; brackets inside strings do not count', () => {
    const read = (more: unknown) => readMessage(DeviceState, bytes({ ...state, more })).kind
    expect(read(`"${'[{'.repeat(200)}`)).toBe('message')
    expect(read(JSON.parse('['.repeat(63) + ']'.repeat(63)))).toBe('message')
    expect(read(JSON.parse('['.repeat(64) + ']'.repeat(64)))).toBe('unreadable')
  })
})
