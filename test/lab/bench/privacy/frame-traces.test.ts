import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { type FrameTrace, findingsOf } from '../../../../lab/bench/privacy/frame-traces.ts'

const random = seededRandom(1)
const lengths = [40, 310, 95, 220, 160, 270, 130, 60]

/** Three answers to each of eight prompts, whose frame of the prompt is as long as this makes it, at times that vary. */
const traces = (bytesOf: (promptTokens: number) => number): FrameTrace[] =>
  [0, 1, 2].flatMap(() =>
    lengths.map((promptTokens, prompt): FrameTrace => {
      const rounds = 6
      const arrivals = Array.from({ length: 2 * (1 + rounds) }, (_, at) => ({
        direction: at % 2 === 0 ? ('up' as const) : ('down' as const),
        atMs: 30 * at + 8 * random.next(),
        bytes: at === 0 ? bytesOf(promptTokens) : 1_000,
      }))
      return { prompt, promptTokens, answerTokens: 12, acceptLength: 2, arrivals }
    }),
  )

describe('an observer of lengths and times', () => {
  it('tells prompts apart whose frames have their lengths', () => {
    const { samePrompt, promptTokens, answerTokens, acceptLength } = findingsOf(traces((tokens) => 100 * tokens))
    expect(samePrompt).toBe(1)
    expect(promptTokens).toBeGreaterThan(0.8)
    // They do not vary.
    expect([answerTokens, acceptLength]).toEqual([0, 0])
  })

  it('guesses where all frames are alike', () => {
    const { samePrompt, promptTokens } = findingsOf(traces(() => 40_000))
    expect(samePrompt).toBeLessThan(0.4)
    expect(promptTokens).toBeLessThan(0.8)
  })
})
