import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ModeCounter } from '../../../../lab/simulate/results/mode-result.ts'
import { type AnswerRecord, noWork } from '../../../../lab/simulate/world/answer-record.ts'

const record = (fields: Partial<AnswerRecord> = {}): AnswerRecord => ({
  ...noWork(),
  id: 1,
  atMs: 1_000,
  mode: 'cloud',
  part: 'cloud',
  device: undefined,
  promptTokens: 10,
  outputTokens: 20,
  sharedTokens: 0,
  tokensPerS: 5,
  refusal: undefined,
  ttftMs: 200,
  endedMs: 3_000,
  tokens: 20,
  tbtMs: 90,
  stalledMs: 0,
  weightedTokens: 15,
  qualityOfExperience: 1,
  ...fields,
})

/** @param open requests that have not ended */
function counted(records: readonly AnswerRecord[], open = 0): ModeCounter {
  const counter = new ModeCounter()
  for (let at = 0; at < records.length + open; at += 1) counter.asked()
  for (const each of records) {
    if (each.tokens > 0) counter.first(each.ttftMs)
    counter.ended(each)
  }
  return counter
}

describe('the figures of a mode', () => {
  it('count what has become of each request', () => {
    const refused = record({ refusal: 'queue full', ttftMs: Number.NaN, tokens: 0 })
    const result = counted([record(), record({ stalledMs: 50 }), refused], 4).result(10)
    expect(result).toMatchObject({ requests: 7, answered: 2, refused: { 'queue full': 1 }, open: 4, stalledShare: 0.5 })
    expect([result.tokens, result.tokensPerS, result.answersPerS]).toEqual([40, 4, 0.2])
    expect(result.latencyMs.mean).toBe(2_000)
    // Twice 20 tokens at 5 per second.
    expect(result.readingS).toBe(8)
  })

  it('count the answers whose prompts the server has computed any of', () => {
    const records = [1, 2].map((serverPromptTokens) => record({ serverPromptTokens }))
    expect(counted([...records, record({ serverOutputTokens: 5 }), record()]).result(1).atServer).toBe(2)
  })

  it('share what readers had in hand among the changes of an answer’s side', () => {
    const { bufferedTokens } = counted([record({ migrations: 4, bufferedTokens: 100 }), record()]).result(1)
    expect([bufferedTokens.count, bufferedTokens.mean]).toEqual([1, 25])
  })

  it('count readers that still wait against the quality of service', () => {
    const [without, waits] = [counted([record()]).result(10), counted([record()], 1).result(10)]
    expect(waits.qos).toBeLessThan(without.qos)
  })

  it('say of tokens that come together that there was no time between them', () => {
    const counter = new ModeCounter()
    counter.gap(300, 3)
    const { tbtMs } = counter.result(1)
    expect([tbtMs.count, tbtMs.mean, tbtMs.max]).toEqual([3, 100, 300])
  })

  it('of parts are together those of all', () => {
    const any = fc.record({
      part: fc.nat({ max: 2 }),
      refusal: fc.option(fc.constantFrom('queue full', 'no device'), { nil: undefined, freq: 4 }),
      tokens: fc.integer({ min: 2, max: 500 }),
      ttftMs: fc.integer({ min: 1, max: 9_000 }),
      stalledMs: fc.constantFrom(0, 0, 700),
      migrations: fc.nat({ max: 2 }),
      bufferedTokens: fc.nat({ max: 50 }),
      serverPromptTokens: fc.nat({ max: 1 }),
      joules: fc.nat({ max: 100 }),
      gapMs: fc.integer({ min: 1, max: 500 }),
    })
    fc.assert(
      fc.property(fc.array(any, { maxLength: 30 }), (answers) => {
        const countOf = (chosen: typeof answers) => {
          const counter = counted(chosen.map((fields) => record({ ...fields, part: String(fields.part) })))
          for (const { gapMs } of chosen) counter.gap(gapMs, 2)
          return counter
        }
        const merged = new ModeCounter()
        for (const part of [0, 1, 2]) merged.merge(countOf(answers.filter((each) => each.part === part)))
        const [together, apart] = [countOf(answers).result(10), merged.result(10)]
        const rounded = (value: unknown) =>
          JSON.parse(JSON.stringify(value, (_, each) => (typeof each === 'number' ? Number(each.toPrecision(9)) : each)))
        expect(rounded({ ...apart, refused: 0 })).toEqual(rounded({ ...together, refused: 0 }))
        expect(apart.refused).toEqual(together.refused)
      }),
    )
  })
})
