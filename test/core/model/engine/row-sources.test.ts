import { describe, expect, it } from 'vitest'
import type { StepInput } from '../../../../core/model/engine/contract.ts'
import { inputFrom, sourcesOf } from '../../../../core/model/engine/row-sources.ts'

const states = (first: number) => ({ rows: 3, width: 2, half: Uint16Array.from({ length: 6 }, (_, i) => first + i) })

/** From which a lost device's sequences are computed again. */
describe('the sources of rows', () => {
  it.each([
    ['token ids', { ids: [4, 5, 6] }],
    ['states', { states: states(1), features: undefined }],
    ['states with features', { states: states(1), features: states(11) }],
    ['what a draft head reads', { ids: [0, 5, 6], states: states(1), features: states(11) }],
  ] satisfies [string, StepInput][])('give the input again: %s', (_, input) => {
    const sources = sourcesOf(input)
    expect(sources).toHaveLength(3)
    expect(inputFrom(sources)).toEqual(input)
    const [, second] = sources
    const one = inputFrom([second!])
    expect('ids' in one ? one.ids : []).toEqual('ids' in input ? [5] : [])
    if ('states' in one) expect([...one.states.half]).toEqual([3, 4])
  })
})
