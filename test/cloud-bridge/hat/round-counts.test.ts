import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RoundCounts } from '../../../cloud-bridge/hat/round-counts.ts'

const counted = (frames: readonly { base: number; n: number; want: number }[]) => {
  const counts = new RoundCounts()
  for (const frame of frames) counts.add(frame)
  const { rounds, drafted, accepted } = counts
  return { rounds, drafted, accepted }
}

describe('rounds that frames tell of', () => {
  it('are none while the prompt comes, however many frames it takes', () => {
    const prompt = [
      { base: 0, n: 16, want: 0 },
      { base: 16, n: 16, want: 0 },
      { base: 32, n: 5, want: 1 },
    ]
    expect(counted(prompt)).toEqual({ rounds: 0, drafted: 0, accepted: 0 })
  })

  it('have drafts, of which the next round shows how many were accepted', () => {
    const prompt = { base: 0, n: 10, want: 1 }
    const draftOfThree = { base: 10, n: 4, want: 4 }
    expect(counted([prompt, draftOfThree])).toEqual({ rounds: 1, drafted: 0, accepted: 0 })
    // Two of the three and the token that followed them.
    const next = { base: 13, n: 1, want: 1 }
    expect(counted([prompt, draftOfThree, next])).toEqual({ rounds: 2, drafted: 3, accepted: 2 })
  })

  it('never have more accepted than drafted tokens, whatever a device sends', () => {
    const frame = fc.tuple(fc.nat(1_000), fc.nat(20), fc.nat(20)).map(([base, n, want]) => ({ base, n, want: Math.min(n, want) }))
    fc.assert(
      fc.property(fc.array(frame), (frames) => {
        const { rounds, drafted, accepted } = counted(frames)
        return accepted >= 0 && accepted <= drafted && rounds <= frames.length
      }),
    )
  })
})
