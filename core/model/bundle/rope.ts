import type { Rope, RopeScaling } from './architecture.ts'

/** Positions of the rotary tables: attention reads up to two more than the context has (core/model/engine/part-packing.ts). */
export const rotaryPositions = (contextLimit: number): number => contextLimit + 2

/**
 * Scaled inverse frequencies of the rotary position embedding, [headDim / 2]. Each step is rounded to fp32 as in PyTorch,
 * because at high positions unrounded angles differ noticeably.
 */
export function inverseFrequencies(headDim: number, rope: Rope): Float32Array {
  const plain = Float32Array.from(
    { length: headDim / 2 },
    (_, i) => 1 / Math.fround(rope.theta ** Math.fround((2 * i) / headDim)),
  )
  return plain.map((frequency) => scaled(frequency, rope.scaling))
}

/**
 * Rows `from` to `to` (exclusive) of the cosine and sine tables, each [to - from, headDim / 2] row-major.
 */
export function rotaryRows(frequencies: Float32Array, from: number, to: number): { cos: Float32Array; sin: Float32Array } {
  const half = frequencies.length
  const cos = new Float32Array((to - from) * half)
  const sin = new Float32Array((to - from) * half)
  for (let position = from, at = 0; position < to; position++)
    for (const frequency of frequencies) {
      const angle = Math.fround(position * frequency)
      cos[at] = Math.cos(angle)
      sin[at++] = Math.sin(angle)
    }
  return { cos, sin }
}

function scaled(frequency: number, scaling: RopeScaling): number {
  switch (scaling.kind) {
    case 'none':
      return frequency
    case 'linear':
      return frequency / scaling.factor
    case 'llama3': {
      // Llama 3.1 scales long wavelengths, leaves short ones unchanged and interpolates between them.
      const wavelength = (2 * Math.PI) / frequency
      const { factor, lowFreqFactor, highFreqFactor, originalPositions } = scaling
      if (wavelength > originalPositions / lowFreqFactor) return frequency / factor
      if (wavelength < originalPositions / highFreqFactor) return frequency
      const smooth = (originalPositions / wavelength - lowFreqFactor) / (highFreqFactor - lowFreqFactor)
      return ((1 - smooth) * frequency) / factor + smooth * frequency
    }
    default:
      return scaling satisfies never
  }
}
