import { describe, expect, it } from 'vitest'
import { AnswerGate } from '../../../agent/models/answer-gate.ts'

const never = new AbortController().signal

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
    await gate.close(never)
    expect(() => gate.begin()).toThrow(expect.objectContaining({ code: 'MODEL_MISSING', retryAfterMs: 2_000 }))
  })

  it('waits for the last answer in progress, which ends undisturbed', async () => {
    const gate = new AnswerGate()
    const answers = [gate.begin(), gate.begin()]
    const state = closing(gate)
    for (const ended of answers) {
      await settle()
      expect(state.isClosed).toBe(false)
      ended()
    }
    await state.done
  })

  it('stays open when the wait is canceled', async () => {
    const gate = new AnswerGate()
    const ended = gate.begin()
    const cancel = new AbortController()
    const state = closing(gate, cancel.signal)
    cancel.abort(new Error('canceled'))
    await expect(state.done).rejects.toThrow('canceled')
    ended()
    expect(() => gate.begin()).not.toThrow()
  })
})
