import { afterEach, describe, expect, it } from 'vitest'
import { KeptResponses } from '../../../../core/answer/api/kept-responses.ts'
import type { ResponseObject } from '../../../../core/wire/openai/responses-api/response.ts'

const now = { ms: 0 }
/** The time of the test; expiry by itself is never due. */
const clock = {
  nowMs: () => now.ms,
  sleep: (_: number, signal?: AbortSignal) => new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve())),
}
const open: KeptResponses[] = []
const keptResponses = () => {
  const kept = new KeptResponses(clock)
  open.push(kept)
  return kept
}
afterEach(async () => {
  now.ms = 0
  await Promise.all(open.splice(0).map((kept) => kept.close()))
})

const response = (id: string, text = '') => ({
  response: { id, output: [{ id: `msg_${id}`, type: 'message', content: [] }] } as unknown as ResponseObject,
  conversation: [{ role: 'user', content: text }],
})

describe('kept responses', () => {
  it('belong to their client, with their items', () => {
    const kept = keptResponses()
    kept.keep('a', response('1'))
    expect(kept.find('a', '1')).toMatchObject(response('1'))
    expect(kept.findItem('a', 'msg_1')).toMatchObject({ type: 'message' })
    expect([kept.find('b', '1'), kept.findItem('b', 'msg_1'), kept.delete('b', '1')]).toEqual([undefined, undefined, false])
    expect([kept.delete('a', '1'), kept.find('a', '1'), kept.delete('a', '1')]).toEqual([true, undefined, false])
  })

  it('are forgotten after an hour', () => {
    const kept = keptResponses()
    kept.keep('a', response('1'))
    now.ms = 3_599_999
    expect(kept.find('a', '1')).toBeDefined()
    now.ms = 3_600_000
    expect([kept.find('a', '1'), kept.findItem('a', 'msg_1')]).toEqual([undefined, undefined])
  })

  it('beyond 1,024 of them, the client that holds most loses its oldest', () => {
    const kept = keptResponses()
    kept.keep('small', response('own'))
    for (let at = 0; at < 3_000; at++) kept.keep('large', response(`${at}`))
    expect(kept.find('small', 'own')).toBeDefined()
    expect([kept.find('large', '1976'), kept.find('large', '1977'), kept.find('large', '2999')]).toEqual([
      undefined,
      expect.anything(),
      expect.anything(),
    ])
  })

  it('beyond 32 MiB, too, and a larger one alone is not kept', () => {
    const kept = keptResponses()
    kept.keep('small', response('own'))
    for (let at = 0; at < 40; at++) kept.keep('large', response(`${at}`, 'x'.repeat(2 ** 20)))
    const found = Array.from({ length: 40 }, (_, at) => kept.find('large', `${at}`)).filter(Boolean)
    expect(found.length).toBe(31)
    expect(kept.find('small', 'own')).toBeDefined()
    kept.keep('huge', response('1', 'x'.repeat(33 * 2 ** 20)))
    expect(kept.find('huge', '1')).toBeUndefined()
    expect(kept.find('small', 'own')).toBeDefined()
  })
})
