import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonShapeProblem } from '../../../../core/kit/base/json-shape.ts'

const problemOf = (value: unknown, maxValues = 1_000) => jsonShapeProblem(JSON.stringify(value), maxValues)

/** Values of a document; an empty list or object counts one more, as its brackets do before its end is known. */
const countOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 1 + Object.values(value).reduce((sum: number, each) => sum + countOf(each), 0) : 1

describe('the shape of JSON', () => {
  it('is accepted up to a count of values, whatever strings contain', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        const text = JSON.stringify(value)
        expect(jsonShapeProblem(text, 2 * countOf(value))).toBeUndefined()
      }),
    )
    expect(problemOf(['"', '\\', '\\"', '[[['.repeat(500), ',,,'.repeat(500)])).toBeUndefined()
  })

  it('is refused beyond that count', () => {
    expect(problemOf(Array(999).fill(0))).toBeUndefined()
    expect(problemOf(Array(1_001).fill(0))).toBe('more than 1000 values')
    expect(problemOf(Array(1_001).fill({}))).toBe('more than 1000 values')
  })

  it('is refused beyond 64 levels', () => {
    const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`) as unknown
    expect(problemOf(nested(64))).toBeUndefined()
    expect(problemOf(nested(65))).toBe('nested deeper than 64 levels')
  })

  it('is not judged where it is no JSON', () => {
    for (const text of ['', '"', '"\\', ']]]', '"a']) expect(jsonShapeProblem(text, 10)).toBeUndefined()
  })
})
