import { describe, expect, it } from 'vitest'
import { answerProblem } from '../../../agent/trial/trial-question.ts'
import type { AnswerDelta, Endpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const never = new AbortController().signal
const endpointOf = (answer: () => AsyncGenerator<AnswerDelta, void>) => ({ answer }) as unknown as Endpoint
const problemOf = (endpoint: Endpoint | undefined, clock = fakeClock()) =>
  answerProblem(endpoint, { prompt: 'Hello', maxTokens: 4 }, 30, clock, never)

describe('a probe', () => {
  it('needs a model that answers with something', async () => {
    expect(await problemOf(undefined)).toBe('no model answers the probe')
    const [said, empty] = ['Hi', ''].map((text) =>
      endpointOf(async function* () {
        yield { text } as AnswerDelta
      }),
    )
    expect(await problemOf(said)).toBeUndefined()
    expect(await problemOf(empty)).toBe('the answer to the probe is empty')
    // biome-ignore lint/correctness/useYield: it fails before it answers
    const broken = endpointOf(async function* () {
      throw new Error('out of memory')
    })
    expect(await problemOf(broken)).toBe('the probe was not answered: out of memory')
  })

  it('ends at its time limit, and so does the answer', async () => {
    const clock = fakeClock()
    let stopped: AbortSignal | undefined
    const silent = {
      async *answer(_: unknown, signal: AbortSignal) {
        stopped = signal
        await new Promise(() => {})
        yield { text: '' }
      },
    } as unknown as Endpoint
    const problem = problemOf(silent, clock)
    await clock.advance(30_000)
    expect(await problem).toBe('the probe was not answered within 30 s')
    expect(stopped?.aborted).toBe(true)
  })
})
