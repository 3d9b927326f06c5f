import { expect, it } from 'vitest'
import { z } from 'zod'
import { parseFlags } from '../../../../core/kit/cli/flags.ts'
import { limitFlag } from '../../../../core/kit/cli/limit-flag.ts'

const table = z.strictObject({ clients: z.int().min(1).default(10), bytes: z.int().min(64).default(1_000) })
const options = z.object({ limit: limitFlag(table) })

it('reads limits by name', () => {
  expect(parseFlags(options, { limit: ['clients=5', 'bytes=64'] })).toEqual({
    limit: [
      ['clients', 5],
      ['bytes', 64],
    ],
  })
})

it.each([
  ['clients', 'must be like'],
  ['clients=', 'must be like'],
  ['clients=many', 'must be'],
  ['clients=1.5', 'whole number'],
  ['bytes=1', 'at least 64'],
  ['users=1', 'the limits are clients, bytes'],
])('rejects --limit %s', (text, message) => {
  expect(() => parseFlags(options, { limit: [text] })).toThrow(message)
})
