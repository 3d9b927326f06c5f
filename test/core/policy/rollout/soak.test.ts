import { describe, expect, it } from 'vitest'
import { nextSoak, type Soak, soakProblem } from '../../../../core/policy/rollout/soak.ts'

type Seen = NonNullable<Soak['seen']>
const seen = (state: Seen['state'], birth: number): Seen => ({ state, birth })

/** What becomes of a device that was last seen as ready, of start 5. */
function outcomeOf(...states: Seen[]): string | undefined {
  let soak: Soak = { untilMs: 0, seen: seen('ready', 5) }
  for (const state of states) {
    const next = nextSoak(soak, state)
    if ('problem' in next) return next.problem
    soak = next
  }
  return soakProblem(soak)
}

describe('a device that has succeeded', () => {
  it.each([
    { what: 'publishes nothing', states: [] },
    { what: 'loses its connection and returns', states: [seen('lost', 5), seen('ready', 5)] },
    { what: 'is stopped', states: [seen('disconnected', 5)] },
    { what: 'is stopped and started', states: [seen('disconnected', 5), seen('ready', 6)] },
    { what: 'is drained', states: [seen('draining', 5)] },
  ])('stays healthy where it $what', ({ states }) => {
    expect(outcomeOf(...states)).toBeUndefined()
  })

  it.each([
    { what: 'is lost and does not return', states: [seen('lost', 5)], problem: 'has not returned' },
    { what: 'dies and is started again', states: [seen('lost', 5), seen('ready', 6)], problem: 'without a goodbye' },
    {
      what: 'ends in order and is started, twice',
      states: [seen('disconnected', 5), seen('ready', 6), seen('disconnected', 6), seen('ready', 7)],
      problem: 'again and again',
    },
    { what: 'dies before its loss is known', states: [seen('ready', 6)], problem: 'without a goodbye' },
  ])('has failed where it $what', ({ states, problem }) => {
    expect(outcomeOf(...states)).toContain(problem)
  })
})
