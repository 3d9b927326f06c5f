import { describe, expect, it } from 'vitest'
import { AnswerGate } from '../../../agent/models/answer-gate.ts'
import type { AnswerRequest, TokenDelta, TokenEndpoint } from '../../../core/answer/endpoint.ts'

const request = {} as AnswerRequest
const never = new AbortController().signal

/** An endpoint whose answers go on until they are left. */
const endless: TokenEndpoint = {
  model: {} as TokenEndpoint['model'],
  async *answer() {
    for (;;) yield {} as TokenDelta
  },
}

function closing(gate: AnswerGate, signal: AbortSignal = never) {
  const state = { isClosed: false }
  const done = gate.close(signal).then(() => {
    state.isClosed = true
  })
  return Object.assign(state, { done })
}

/** Lets everything that is ready run. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

describe('the gate of a model', () => {
  it('closes at once without answers, and lets none begin after that', async () => {
    const gate = new AnswerGate()
    const endpoint = gate.wrap(endless)
    await gate.close(never)
    await expect(endpoint.answer(request, never).next()).rejects.toMatchObject({ code: 'MODEL_MISSING', retryAfterMs: 2_000 })
  })

  it('waits for the last answer in progress, which ends undisturbed', async () => {
    const gate = new AnswerGate()
    const answers = [gate.wrap(endless).answer(request, never), gate.wrap(endless).answer(request, never)]
    for (const answer of answers) await answer.next()
    const state = closing(gate)
    for (const answer of answers) {
      await settle()
      expect(state.isClosed).toBe(false)
      expect((await answer.next()).done).toBe(false)
      await answer.return()
    }
    await state.done
  })

  it('stays open when the wait is canceled', async () => {
    const gate = new AnswerGate()
    const answer = gate.wrap(endless).answer(request, never)
    await answer.next()
    const cancel = new AbortController()
    const state = closing(gate, cancel.signal)
    cancel.abort(new Error('canceled'))
    await expect(state.done).rejects.toThrow('canceled')
    expect((await gate.wrap(endless).answer(request, never).next()).done).toBe(false)
  })
})
