import { beforeEach, describe, expect, it } from 'vitest'
import { jobRoutes } from '../../cloud-bridge/api/jobs.ts'
import { DeviceState } from '../../core/wire/protocol/messages.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import { startTestHttp } from '../support/http.ts'
import { fresh } from '../support/shared.ts'

const mebibyte = 2 ** 20

describe('a submission that takes long to parse or to check', () => {
  const http = fresh(() => startTestHttp([jobRoutes({} as never, {} as never, {} as never)]))
  beforeEach(async () => {
    // Every one is refused before the queue is asked.
  })

  async function submit(body: string) {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${http.url}/v1/jobs`, { method: 'POST', headers, body })
    return { status: response.status, text: await response.text() }
  }
  it.each([
    ['a million levels of nesting', `${'['.repeat(mebibyte)}${']'.repeat(mebibyte)}`, /nested deeper than 64 levels/],
    ['a million objects', `[${'{},'.repeat(mebibyte)}0]`, /more than 262144 values/],
    ['a hundred thousand wrong messages', `{"messages":[${'0,'.repeat(100_000)}0]}`, /has 200\d+ bytes; the limit is 131072/],
    ['fifty thousand wrong messages', `{"messages":[${'0,'.repeat(50_000)}0]}`, /must have at most \d+ items/],
    ['fifty thousand wrong stop strings', `{"prompt":"a","stop":[${'0,'.repeat(50_000)}0]}`, /must have at most \d+ items/],
  ])('is refused: %s', async (_, input, message) => {
    const { status, text } = await submit(`{"kind":"hat.generate","input":${input}}`)
    expect(status).toBe(400)
    expect(text).toMatch(message)
    expect(text.length).toBeLessThan(1_000)
  })

  it('is refused: nine thousand options, which a device would compare with those that it knows', async () => {
    const settings = Object.fromEntries(Array.from({ length: 9_000 }, (_, at) => [`o${at}`, 1]))
    const { status, text } = await submit(JSON.stringify({ kind: 'config.apply', device: 'orin', input: { settings } }))
    expect(status).toBe(400)
    expect(text).toContain('must have at most 64 options')
  })
})

it('a message of a device with more values than any has is not read', () => {
  const jobs = Array(50_000).fill(0)
  const payload = Buffer.from(JSON.stringify({ v: 1, state: 'ready', birth: 1, at: '2026-01-01T00:00:00Z', jobs }))
  expect(readMessage(DeviceState, payload)).toMatchObject({ kind: 'unreadable', reason: 'more than 16384 values' })
})
