import { describe, expect, it } from 'vitest'
import type { Endpoint, TextDelta } from '../../../../core/answer/endpoint/endpoint.ts'
import { observe } from '../../../../core/answer/endpoint/observe.ts'
import { CloudMeter } from '../../../../core/policy/pice/cloud-meter.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

/** An LLM whose tokens come when the test says so. */
function world() {
  const clock = fakeClock()
  const cloud = new CloudMeter()
  const source = { kind: 'upstream', model: { name: 'llm' } } as const
  function ask() {
    const tokens: (() => void)[] = []
    const wanted: (() => void)[] = []
    const stop = new AbortController()
    const endpoint: Endpoint = {
      model: source.model,
      async *answer(): AsyncGenerator<TextDelta> {
        for (;;) {
          const isEnd = await new Promise<boolean>((resolve, reject) => {
            tokens.push(() => resolve(false))
            stop.signal.addEventListener('abort', () =>
              stop.signal.reason === 'end' ? resolve(true) : reject(stop.signal.reason),
            )
            wanted.shift()?.()
          })
          if (isEnd) return
          yield { source, text: 'a ', tokenCount: 1, end: undefined }
        }
      },
    }
    const request = {} as Parameters<Endpoint['answer']>[0]
    const deltas = observe(endpoint, clock, ({ atMs }) => cloud.begin(atMs)).answer(request, stop.signal)
    let next = deltas.next()
    return {
      /** The next token, and the reader wants one more at once, or after some time. */
      async token(readsMs = 0) {
        tokens.pop()!()
        await next
        await clock.advance(readsMs)
        next = deltas.next()
      },
      async end() {
        stop.abort('end')
        await next
      },
      async fail() {
        stop.abort(new Error('gone'))
        await next.catch(() => {})
      },
    }
  }
  return { clock, cloud, ask }
}

describe('the measured speed of an LLM', () => {
  it('is unknown before the first two tokens', async () => {
    const { cloud, clock, ask } = world()
    const answer = ask()
    expect(cloud.speed).toBeUndefined()
    await clock.advance(500)
    await answer.token()
    await clock.advance(100)
    await answer.token()
    await answer.end()
    expect(cloud.speed).toMatchObject({ waitS: 0, ttftS: 0.5, slots: 1 })
    expect(cloud.speed?.tpotS).toBeCloseTo(0.1)
  })

  it.each([
    [120, 2],
    // Two at once get fewer tokens in all than one alone.
    [300, 1],
  ])('is that of one more answer beside those that are being written, which take %i ms a token', async (ms, slots) => {
    const { cloud, clock, ask } = world()
    const first = ask()
    await first.token()
    await clock.advance(100)
    await first.token()
    const second = ask()
    await second.token()
    await clock.advance(ms)
    await first.token()
    await second.token()
    await second.end()
    expect(cloud.speed?.slots).toBe(slots)
    expect(cloud.speed?.tpotS).toBeCloseTo(ms / 1_000)
    await first.end()
    expect(cloud.speed?.tpotS).toBeCloseTo(0.1)
  })

  it('does not count the time of a slow reader', async () => {
    const { cloud, clock, ask } = world()
    const answer = ask()
    await answer.token()
    await clock.advance(100)
    await answer.token(5_000)
    await answer.token()
    await answer.end()
    expect(cloud.speed?.tpotS).toBeCloseTo(0.1)
  })

  it('has the time that an answer waits for those before it, which is no part of its time to the first token', async () => {
    const { cloud, clock, ask } = world()
    const first = ask()
    await clock.advance(1_000)
    await first.token()
    await clock.advance(100)
    await first.token()
    const waiting = [ask(), ask(), ask()]
    await clock.advance(900)
    await waiting[0]!.token()
    await clock.advance(4_000)
    await waiting[1]!.token()
    // One waits, which begins in 4 s, and the next after another 4.
    expect(cloud.speed).toMatchObject({ waitS: 8 })
    expect(cloud.speed!.ttftS).toBeLessThan(1.01)
    await waiting[2]!.end()
    expect(cloud.speed).toMatchObject({ waitS: 0 })
  })

  it('does not take idle time for waiting', async () => {
    const { cloud, clock, ask } = world()
    const [first, gone] = [ask(), ask()]
    await first.token()
    await clock.advance(100)
    await first.token()
    await gone.fail()
    await clock.advance(3_600_000)
    await ask().token()
    ask()
    expect(cloud.speed).toMatchObject({ waitS: 0 })
  })
})
