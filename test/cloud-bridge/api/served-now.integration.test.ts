import { describe, expect, it } from 'vitest'
import { bridgeRoutes } from '../../../cloud-bridge/api/bridge.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { startTestHttp } from '../../support/http.ts'

describe('a stream of what a bridge serves now', () => {
  it('has all of it at once, then at most once a second where it has changed; nothing is read without a reader', async () => {
    const clock = fakeClock()
    let reads = 0
    let moreAnswers = 0
    const served = () => {
      reads += 1
      return { sessions: [], moreSessions: 0, answers: [], moreAnswers }
    }
    const others = { health: () => ({}) as never, steps: () => [], metrics: async () => '', node: undefined, id: 'a', onEnd() {} }
    await using http = await startTestHttp([bridgeRoutes({ ...others, served, clock })])
    await clock.advance(5_000)
    expect(reads).toBe(0)

    const leave = new AbortController()
    const response = await fetch(`${http.url}/v1/served`, { headers: { accept: 'text/event-stream' }, signal: leave.signal })
    const events = readSse(response.body!)[Symbol.asyncIterator]()
    const next = async () => JSON.parse((await events.next()).value as string) as ReturnType<typeof served>
    expect(await next()).toMatchObject({ moreAnswers: 0 })
    await clock.advance(3_000)
    expect(reads).toBe(4)
    moreAnswers = 1
    await clock.advance(999)
    expect(reads).toBe(4)
    await clock.advance(1)
    // What had not changed was not sent again.
    expect(await next()).toMatchObject({ moreAnswers: 1 })

    leave.abort()
    const isRead = async () => {
      const before = reads
      await clock.advance(1_000)
      return reads > before
    }
    await expect.poll(isRead).toBe(false)
  })
})
