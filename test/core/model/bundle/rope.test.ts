import { describe, expect, it } from 'vitest'
import { inverseFrequencies, rotaryRows } from '../../../../core/model/bundle/rope.ts'

const llama3 = { kind: 'llama3', factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalPositions: 8192 } as const

describe('rotary tables', () => {
  it('contain cosine and sine of position times frequency', () => {
    const frequencies = inverseFrequencies(4, { theta: 10_000, scaling: { kind: 'none' } })
    expect(Array.from(frequencies)).toEqual([1, Math.fround(0.01)])
    const { cos, sin } = rotaryRows(frequencies, 3, 5)
    expect(Array.from(cos)).toEqual([3, Math.fround(0.03), 4, Math.fround(0.04)].map((angle) => Math.fround(Math.cos(angle))))
    expect(Array.from(sin)).toEqual([3, Math.fround(0.03), 4, Math.fround(0.04)].map((angle) => Math.fround(Math.sin(angle))))
  })

  it('are scaled by a linear factor', () => {
    const plain = inverseFrequencies(64, { theta: 10_000, scaling: { kind: 'none' } })
    const scaled = inverseFrequencies(64, { theta: 10_000, scaling: { kind: 'linear', factor: 4 } })
    expect(scaled).toEqual(plain.map((frequency) => frequency / 4))
  })

  it('leave short wavelengths unchanged and scale long ones as Llama 3.1 does', () => {
    const plain = inverseFrequencies(128, { theta: 500_000, scaling: { kind: 'none' } })
    const scaled = inverseFrequencies(128, { theta: 500_000, scaling: llama3 })
    const ratios = Array.from(plain, (frequency, i) => frequency / (scaled[i] ?? 0))
    const waves = Array.from(plain, (frequency) => (2 * Math.PI) / frequency)
    for (const [i, wave] of waves.entries()) {
      if (wave < 8192 / 4) expect(ratios[i]).toBe(1)
      else if (wave > 8192) expect(ratios[i]).toBeCloseTo(8, 5)
      else expect(ratios[i]).toSatisfy((ratio: number) => ratio > 1 && ratio < 8)
    }
    expect(ratios.toSorted((a, b) => a - b)).toEqual(ratios)
  })
})
