import { expect, it } from 'vitest'
import type { AnswerDelta } from '../../../../core/answer/endpoint/endpoint.ts'
import type { DiscoFigures } from '../../../../core/answer/endpoint/figures.ts'
import { answerSpeedOf, ReportBuilder } from '../../../../core/answer/endpoint/report.ts'
import type { TextModel } from '../../../../core/answer/endpoint/text-model.ts'

/** Of three tokens, 100 ms apart. */
function speed(kinds: readonly ('hat' | 'slm' | 'bridge')[], tokensPerS?: number) {
  const builder = new ReportBuilder(0)
  const disco = { tokensPerS } as DiscoFigures
  for (const [at, kind] of kinds.entries()) {
    const source = { kind, model: { name: kind } as TextModel }
    const delta: AnswerDelta = { source, tokens: [at], end: undefined, ...(tokensPerS !== undefined && { disco: () => disco }) }
    builder.add(delta, { text: 'a', tokens: 1, end: undefined }, 50 + 100 * at)
  }
  return answerSpeedOf({ report: builder.build(), tokens: kinds.length })
}

it('measures the speed of a model only where it wrote the whole answer, as fast as it could, on this device', () => {
  expect(speed(['slm', 'slm', 'slm'], 0)).toEqual({ model: 'slm', tpotMs: 100, tokens: 3 })
  expect(speed(['hat', 'hat', 'hat'])).toEqual({ model: 'hat', tpotMs: 100, tokens: 3 })
  // A bridge measures its own model.
  expect(speed(['bridge', 'bridge', 'bridge'])).toMatchObject({ tpotMs: 100 })
  expect(speed(['slm', 'slm', 'slm'], 10).tpotMs).toBeNull()
  expect(speed(['bridge', 'bridge', 'bridge'], 0).tpotMs).toBeNull()
  expect(speed(['hat', 'hat', 'slm'], 0).tpotMs).toBeNull()
})
