import { expect, it } from 'vitest'
import { bestOf, type Goal, type Tried } from '../../../../lab/simulate/what-if/choice.ts'

interface Figures {
  readonly qos?: number
  readonly ttftMs?: number
  readonly promptTokens?: number
  readonly outputTokens?: number
}

const tried = (name: string, { qos = 1, ttftMs = 100, promptTokens = 10, outputTokens = 10 }: Figures): Tried => {
  const work = { serverPromptTokens: promptTokens, serverOutputTokens: outputTokens, joules: 1 }
  const all = { requests: 10, answered: 10, qos, ttftMs: { p95: ttftMs }, latencyMs: { p95: 1_000 }, work }
  return { candidate: { name }, result: { all } } as unknown as Tried
}
const best = (goal: Goal, all: readonly Tried[], price?: { prompt: number; output: number }) =>
  bestOf(all, goal, price)!.candidate.name

it('is the way with the most quality of service, not with the least', () => {
  expect(best('qos', [tried('poor', { qos: 1 }), tried('good', { qos: 5 }), tried('bad', { qos: -9 })])).toBe('good')
})

it('costs what its prompts and answers cost', () => {
  const all = [tried('reads', { promptTokens: 100 }), tried('writes', { outputTokens: 100 })]
  expect(best('cost', all, { prompt: 1, output: 4 })).toBe('reads')
  expect(best('cost', all, { prompt: 4, output: 1 })).toBe('writes')
})

it('is the fastest of those that cost as little', () => {
  expect(best('cost', [tried('slow', { ttftMs: 900 }), tried('fast', { ttftMs: 100, outputTokens: 11 })])).toBe('fast')
})
