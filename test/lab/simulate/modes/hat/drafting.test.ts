import { describe, expect, it } from 'vitest'
import { DeviceSpeed } from '../../../../../core/policy/hat/device-speed.ts'
import { Simulation } from '../../../../../lab/simulate/kernel/simulation.ts'
import type { DraftedToken } from '../../../../../lab/simulate/modes/hat/draft-process.ts'
import { Drafting } from '../../../../../lab/simulate/modes/hat/drafting.ts'

/** Tokens of a drafter: certain or not, right or not. */
const tokens: Readonly<Record<string, DraftedToken>> = {
  R: { topProbability: 0.9, isRight: true },
  W: { topProbability: 0.9, isRight: false },
  r: { topProbability: 0.3, isRight: true },
  w: { topProbability: 0.3, isRight: false },
}
/** A round trip of four steps: 40 ms. */
const trip = { rows: 1, bytesPerToken: 0, upBytesPerS: 1, downBytesPerS: 1, rttS: 0.04, waitS: 0, computeS: 0 }

/** A drafter whose tokens are scripted; a step takes 10 ms, whatever it computes. */
function drafting(
  script: string,
  { alternatives = 1, alternativeShare = 1, limit = 8, paced = false, branching = 'last' as 'last' | 'each' } = {},
) {
  const simulation = new Simulation(1)
  const calls: string[] = []
  const left = [...script]
  const made = new Drafting({
    simulation,
    process: { next: () => tokens[left.shift()!]! },
    random: { next: () => 0.5 },
    speed: new DeviceSpeed(),
    threshold: 0.6,
    paced,
    ahead: true,
    alternatives,
    branching,
    alternativeShare,
    feed: (rows, context, done) => {
      calls.push(`feed ${rows} after ${context}`)
      simulation.after(10, done)
    },
    step: (rows, context, done) => {
      calls.push(`step ${rows} after ${context}`)
      simulation.after(10, done)
    },
  })
  const draft = (position: number) => {
    calls.length = 0
    let drafted = -1
    made.draft(position, limit, 0, (count) => {
      drafted = count
    })
    simulation.advance(100)
    return { drafted, calls: [...calls] }
  }
  /** @returns right tokens */
  const verify = (position: number, verifiedAfterMs = 1_000) => {
    calls.length = 0
    made.draftAhead(position, limit, trip)
    simulation.advance(100, simulation.nowMs + verifiedAfterMs)
    const right = made.verified()
    simulation.advance(100)
    made.settle(right)
    return { right, calls: [...calls] }
  }
  return { draft, verify }
}

describe('drafts on the virtual clock', () => {
  it('end with the first uncertain token, or at their limit', () => {
    expect(drafting('RRwR').draft(10)).toEqual({
      drafted: 3,
      calls: ['feed 1 after 10', 'step 1 after 10', 'step 1 after 11', 'step 1 after 12'],
    })
    expect(drafting('RRRR', { limit: 2 }).draft(10).drafted).toBe(2)
  })

  it('end by their pace once a round has shown it: a token that is hardly likely costs more than it gains', () => {
    // Two tokens in 60 ms, and of two checked ones half were right: the chance of all drafted ones has to be 2/3.
    const { draft, verify } = drafting('Rw' + 'RR' + 'RRRR', { paced: true, alternatives: 0, limit: 4 })
    draft(10)
    verify(10, 20)
    const unsure = drafting('Rw' + 'RR' + 'rrRR', { paced: true, alternatives: 0, limit: 4 })
    unsure.draft(10)
    unsure.verify(10, 20)
    expect([draft(12).drafted, unsure.draft(12).drafted]).toEqual([4, 1])
  })

  it('continue from the branch of the alternative that corrects the last token', () => {
    // The draft Rw; then, for each step, the draft's own branch and the alternative's.
    const { draft, verify } = drafting('Rw' + 'Rr' + 'Rw' + 'R')
    draft(10)
    const { right, calls } = verify(10)
    expect(right).toBe(1)
    // The alternative's branch ends with its first, uncertain token.
    expect(calls).toEqual(['feed 1 after 12', 'step 2 after 12', 'step 1 after 13', 'step 1 after 14'])
    // So the next draft is ready.
    expect(draft(12)).toEqual({ drafted: 1, calls: [] })
  })

  it('begin anew where the correction is none of the alternatives, or of an earlier token', () => {
    const none = drafting('Rw' + 'RrRwRr' + 'r', { alternativeShare: 0 })
    none.draft(10)
    none.verify(10)
    expect(none.draft(12).calls[0]).toBe('feed 1 after 12')
    const earlier = drafting('WRw' + 'RrRwRr' + 'r')
    earlier.draft(10)
    expect(earlier.verify(10).right).toBe(0)
    expect(earlier.draft(11).calls[0]).toBe('feed 1 after 11')
  })

  it('continue from the branch of an earlier token, where each has branches', () => {
    // The draft WRw; then for each step its own branch and one for each of the three tokens.
    const { draft, verify } = drafting('WRw' + 'rRrr' + 'R' + 'R' + 'w', { branching: 'each' })
    draft(10)
    const { right, calls } = verify(10)
    expect(right).toBe(0)
    expect(calls.slice(0, 3)).toEqual(['feed 3 after 13', 'step 4 after 13', 'step 1 after 14'])
    // The correction's branch has RRw... up to the time of the verification.
    expect(draft(11).calls[0]).not.toBe('feed 1 after 11')
  })

  it('continue after the bonus token where it is the one drafted ahead, which then belongs to no draft', () => {
    const { draft, verify } = drafting('Rr' + 'RRRRRR', { alternatives: 0, limit: 3 })
    draft(10)
    const { right, calls } = verify(10)
    expect(right).toBe(2)
    // Its own branch may have one token more than a draft: the first becomes the pending one.
    expect(calls).toHaveLength(4)
    expect(draft(13)).toEqual({ drafted: 3, calls: [] })
    const other = drafting('Rr' + 'WRRRRR' + 'r', { alternatives: 0, limit: 3 })
    other.draft(10)
    other.verify(10)
    expect(other.draft(13).calls[0]).toBe('feed 1 after 13')
  })

  it('stop with the verification: a step that it overtakes is lost', () => {
    const { draft, verify } = drafting('Rr' + 'RRRRRR' + 'r', { alternatives: 0 })
    draft(10)
    // Two steps are over, the third is under way.
    expect(verify(10, 25).calls).toHaveLength(3)
    // Of the two tokens the first is the bonus.
    expect(draft(13).calls).toEqual([
      'step 1 after 14',
      'step 1 after 15',
      'step 1 after 16',
      'step 1 after 17',
      'step 1 after 18',
    ])
  })
})
