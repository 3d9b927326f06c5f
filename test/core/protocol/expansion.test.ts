import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Expansion, sentencesOf } from '../../../core/protocol/expansion.ts'
import { ExpandInput, JobEvent, JobSubmission, resultProblem } from '../../../core/protocol/jobs.ts'

const sentence = fc.string({ minLength: 1, maxLength: 40 }).filter((text) => text.trim() !== '')
const input = fc
  .record(
    {
      prompt: fc.string({ minLength: 1, maxLength: 200 }),
      sketch: fc.array(sentence, { minLength: 1, maxLength: 12 }),
      from: fc.nat({ max: 11 }),
      expectedTokens: fc.integer({ min: 1, max: 1_000_000 }),
      budgetMs: fc.double({ min: 1, max: 1e6, noNaN: true }),
      candidates: fc.integer({ min: 1, max: 8 }),
      seed: fc.integer(),
    },
    { requiredKeys: ['prompt', 'sketch', 'expectedTokens'] },
  )
  .map(({ from, ...fields }) => ({ ...fields, ...(from === undefined ? {} : { from: from % fields.sketch.length }) }))

/** An expansion as a device returns it: sentences in order, in `groupsOf` groups. */
const expanded = (asked: ExpandInput, groupsOf: number): Expansion => {
  const sentences = sentencesOf(asked)
  return {
    candidates: Array.from({ length: asked.candidates }, (_, i) => ({
      model: `slm-${i}`,
      sentences: sentences.map((at) => ({ sentence: at, text: `${asked.sketch[at]} And more.`, tokens: 7 })),
      meanLog2Probability: -0.5,
    })),
    groups: Array.from({ length: groupsOf }, (_, group) => sentences.filter((at) => at % groupsOf === group)).filter(
      (group) => group.length > 0,
    ),
    tookMs: 12,
  }
}

describe('a job that expands a sketch', () => {
  it('is parsed without loss for any sketch, and again as it was stored', () => {
    fc.assert(
      fc.property(input, (raw) => {
        const { input: stored } = JobSubmission.parse({ kind: 'pice.expand', input: raw }) as { input: ExpandInput }
        expect(stored).toMatchObject({ from: raw.from ?? 0, candidates: raw.candidates ?? 1, temperature: 0 })
        expect(stored.sketch).toEqual(raw.sketch.map((text) => text.trim()))
        expect(ExpandInput.parse(JSON.parse(JSON.stringify(stored)))).toEqual(stored)
      }),
      { seed: 1, numRuns: 300 },
    )
  })

  it.each([
    ['no sketch', { sketch: [] }],
    ['an empty sentence', { sketch: ['One.', '  '] }],
    ['no sentence left to expand', { from: 2 }],
    ['no length', { expectedTokens: undefined }],
    ['two questions', { messages: [{ role: 'user', content: 'b' }] }],
    ['an unknown field', { level: 3 }],
    ['no time', { budgetMs: 0 }],
  ])('is refused with %s', (_, fields) => {
    const good = { prompt: 'What is a lamp?', sketch: ['It gives light.', 'It needs power.'], expectedTokens: 120 }
    expect(JobSubmission.safeParse({ kind: 'pice.expand', input: good }).success).toBe(true)
    expect(JobSubmission.safeParse({ kind: 'pice.expand', input: { ...good, ...fields } }).success).toBe(false)
  })

  it('accepts only results with each sentence once, in order, in every candidate and in the groups', () => {
    let harmed = 0
    fc.assert(
      fc.property(
        input,
        fc.integer({ min: 1, max: 5 }),
        fc.nat(),
        fc.nat(),
        fc.nat({ max: 3 }),
        (raw, groups, at, other, harm) => {
          const asked = ExpandInput.parse(raw)
          const good = expanded(asked, groups)
          expect(resultProblem('pice.expand', asked, JSON.parse(JSON.stringify(good)))).toBeUndefined()
          const bad = structuredClone(good)
          const { sentences } = bad.candidates[at % bad.candidates.length]!
          const [one, two] = [at % sentences.length, other % sentences.length]
          if (harm === 0) sentences.splice(one, 1)
          else if (harm === 1) sentences.push({ ...sentences[one]! })
          else if (harm === 2) bad.groups[0]!.push(bad.groups[0]![0]!)
          else if (one === two) return
          else [sentences[one], sentences[two]] = [sentences[two]!, sentences[one]!]
          harmed += 1
          expect(resultProblem('pice.expand', asked, bad)).toMatch(/each requested sentence once/)
        },
      ),
      { seed: 1, numRuns: 300 },
    )
    expect(harmed).toBeGreaterThan(100)
  })

  it('rejects any other value as its result', () => {
    const asked = ExpandInput.parse({ prompt: 'a', sketch: ['b'], expectedTokens: 1 })
    fc.assert(
      fc.property(fc.anything(), (anything) => {
        expect(resultProblem('pice.expand', asked, anything)).toEqual(expect.any(String))
      }),
      { seed: 1, numRuns: 500 },
    )
  })

  it('streams its answer by sentences of the sketch', () => {
    const event = { v: 1, bridge: 'b', job: '0123abcd-1', attempt: 1, n: 3, at: '2026-01-01T00:00:00.000Z', type: 'text' }
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.string(), (sentence, from, text) => {
        const piece = { ...event, sentence, from, text }
        expect(JobEvent.parse(JSON.parse(JSON.stringify(piece)))).toEqual(piece)
      }),
      { seed: 1, numRuns: 100 },
    )
    expect(JobEvent.safeParse({ ...event, sentence: -1, from: 0, text: '' }).success).toBe(false)
  })
})
