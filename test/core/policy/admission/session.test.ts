import { describe, expect, it } from 'vitest'
import { sessionRefusal } from '../../../../core/policy/admission/session.ts'

describe('a connection', () => {
  it.each([
    ['opens a session below its limit', { openSessions: 1, maxSessions: 2, isClosing: false }, undefined],
    ['is refused a session at its limit', { openSessions: 2, maxSessions: 2, isClosing: false }, /2 open sessions/],
    ['is refused a session while the bridge shuts down', { openSessions: 0, maxSessions: 2, isClosing: true }, /shutting down/],
  ])('%s', (_, load, reason) => {
    const refusal = sessionRefusal(load)
    if (reason) expect(refusal).toMatch(reason)
    else expect(refusal).toBeUndefined()
  })
})
