import { describe, expect, it } from 'vitest'
import { fittingSequences, packSequences } from '../../../../core/policy/pice/pack-sequences.ts'

describe('a step of several sequences', () => {
  it('takes them in their order, prompts in pieces of 256 tokens', () => {
    const waiting = [
      { id: 7, waitingRows: 300, phase: 'prefill' as const },
      { id: 3, waitingRows: 1, phase: 'decode' as const },
      { id: 5, waitingRows: 20, phase: 'prefill' as const },
      { id: 9, waitingRows: 1, phase: 'decode' as const },
    ]
    expect(packSequences(waiting, 3)).toEqual([
      { stream: 7, rows: 256 },
      { stream: 3, rows: 1 },
      { stream: 5, rows: 20 },
    ])
  })

  it('has as many as memory holds buffers for, which double as they grow; at least one', () => {
    // 1,000 positions of 4 bytes: a buffer of 4,096.
    expect(fittingSequences(16, 1_000, { bytesPerPosition: 4, fixedBytes: 0 }, 5 * 4_096)).toBe(5)
    expect(fittingSequences(16, 1_000, { bytesPerPosition: 4, fixedBytes: 1_024 }, 5 * 4_096)).toBe(4)
    expect(fittingSequences(4, 1_000, { bytesPerPosition: 4, fixedBytes: 0 }, 5 * 4_096)).toBe(4)
    expect(fittingSequences(16, 1_025, { bytesPerPosition: 4, fixedBytes: 0 }, 5 * 4_096)).toBe(2)
    expect(fittingSequences(16, 1_000, { bytesPerPosition: 4, fixedBytes: 0 }, 100)).toBe(1)
  })
})
