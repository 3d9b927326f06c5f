import { describe, expect, it } from 'vitest'
import { type OpenModelState, planOpening } from '../../../../core/policy/pice/open-models.ts'

const memory = { limitBytes: 100, freeBytes: 1_000, reserveBytes: 10 }
const model = (name: string, bytes: number, usedMs: number, isBorrowed = false): OpenModelState => ({
  name,
  bytes,
  usedMs,
  isBorrowed,
})

describe('the plan for opening a small model', () => {
  it('closes nothing while the memory holds all', () => {
    expect(planOpening(40, [model('a', 60, 1)], memory)).toEqual({ kind: 'open', close: [] })
  })

  it('closes the ones unused longest, and no more than necessary', () => {
    const open = [model('a', 30, 3), model('b', 30, 1), model('c', 30, 2)]
    expect(planOpening(40, open, memory)).toEqual({ kind: 'open', close: ['b'] })
    expect(planOpening(70, open, memory)).toEqual({ kind: 'open', close: ['b', 'c'] })
  })

  it('closes models if the machine has too little free memory', () => {
    const little = { ...memory, freeBytes: 25 }
    expect(planOpening(20, [model('a', 30, 1)], little)).toEqual({ kind: 'open', close: ['a'] })
    expect(planOpening(15, [model('a', 30, 1)], little)).toEqual({ kind: 'open', close: [] })
  })

  it('waits for a borrowed model, and closes none in vain', () => {
    expect(planOpening(60, [model('a', 60, 1, true), model('b', 10, 0)], memory)).toEqual({ kind: 'wait' })
  })

  it('opens one model with little free memory, but none beyond the limit', () => {
    expect(planOpening(90, [], { ...memory, freeBytes: 0 })).toEqual({ kind: 'open', close: [] })
    expect(planOpening(90, [model('a', 10, 1)], { ...memory, freeBytes: 0 })).toEqual({ kind: 'open', close: ['a'] })
    expect(planOpening(101, [], memory)).toEqual({ kind: 'refuse' })
  })
})
