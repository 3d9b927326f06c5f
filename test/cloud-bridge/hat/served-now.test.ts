import { describe, expect, it } from 'vitest'
import { servedNow } from '../../../cloud-bridge/hat/served-now.ts'
import type { AnswerView } from '../../../cloud-bridge/serving/token-stream.ts'
import { ServedNow } from '../../../core/wire/protocol/http/served-now.ts'

const stream = {
  ...{ state: 'running' as const, contextTokens: 12, unreadTokens: null, tokensPerS: null },
  ...{ preemptions: 0, resumptions: 0, fastKvBytes: 4_096, slowKvBytes: 0 },
}
const answers = (count: number): AnswerView[] =>
  Array.from({ length: count }, (_, at) => ({ client: `client hash${at}-of-64-digits`, ...stream, generatedTokens: at }))
const sessions = (count: number) =>
  Array.from({ length: count }, (_, at) => ({
    ...{ session: String(at), device: `jetson-${at}`, modelId: 'm', ...stream },
    ...{ rounds: 1, drafted: 4, accepted: 3, bytesUp: 100, bytesDown: 200, rttMs: null },
  }))

describe('what a bridge serves now', () => {
  it('is at most 64 sessions and 64 answers of all models, those that began first, and the number of the others', () => {
    const models = new Map([
      ['m', { answers: () => answers(40) }],
      ['n', { answers: () => answers(40) }],
    ])
    const now = servedNow(sessions(70), models)
    expect(ServedNow.parse(now)).toEqual(now)
    expect(now.sessions.map(({ device }) => device)).toEqual(sessions(64).map(({ device }) => device))
    expect(now.answers.map(({ modelId, client }) => `${modelId} ${client}`).at(-1)).toBe('n hash23-o')
    expect([now.moreSessions, now.moreAnswers]).toEqual([6, 16])
  })
})
