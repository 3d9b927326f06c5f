import type { Rope, RopeScaling } from './architecture.ts'

/** Positions of the rotary tables: attention reads up to two more than the context has (core/model/engine/part-packing.ts). */
export const rotaryPositions = (contextLimit: number): number => contextLimit + 2

/** Elements of a head that are rotated. */
export const rotatedOf = ({ rotated }: Rope, headDim: number): number => rotated ?? headDim

/**
 * Scaled inverse frequencies of the rotary position embedding, [rotated elements / 2]. Each step is rounded to fp32 as in
 * PyTorch, because at high positions unrounded angles differ noticeably.
 */
export function inverseFrequencies(headDim: number, rope: Rope): Float32Array {
  const width = rotatedOf(rope, headDim)
  const plain = Float32Array.from({ length: width / 2 }, (_, i) => 1 / Math.fround(rope.theta ** Math.fround((2 * i) / width)))
  return plain.map((frequency, i) => scaled(frequency, i, rope, width))
}

/**
 * Rows `from` to `to` (exclusive) of the cosine and sine tables, each [to - from, headDim / 2] row-major.
 */
export function rotaryRows(
  frequencies: Float32Array,
  from: number,
  to: number,
  magnitude = 1,
): { cos: Float32Array; sin: Float32Array } {
  const half = frequencies.length
  const cos = new Float32Array((to - from) * half)
  const sin = new Float32Array((to - from) * half)
  for (let position = from, at = 0; position < to; position++)
    for (const frequency of frequencies) {
      const angle = Math.fround(position * frequency)
      cos[at] = Math.cos(angle) * magnitude
      sin[at++] = Math.sin(angle) * magnitude
    }
  return { cos, sin }
}

function scaled(frequency: number, index: number, { theta, scaling }: Rope, width: number): number {
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
    case 'yarn': {
      // Short wavelengths are left unchanged, long ones interpolated, and those between blended by their index (arXiv:2309.00071).
      const share = yarnShare(index, theta, scaling, width)
      return (frequency / scaling.factor) * share + frequency * (1 - share)
    }
    case 'factors':
      return frequency / scaling.factors[index]!
    default:
      return scaling satisfies never
  }
}

/** 0: the frequency stays; 1: it is divided by the factor. */
function yarnShare(
  index: number,
  theta: number,
  { originalPositions, betaFast, betaSlow, truncate }: Yarn,
  width: number,
): number {
  /** The index whose frequency rotates so often within the original context. */
  const indexOf = (rotations: number) => (width * Math.log(originalPositions / (rotations * 2 * Math.PI))) / (2 * Math.log(theta))
  const [from, to] = [indexOf(betaFast), indexOf(betaSlow)]
  const low = Math.max(0, truncate ? Math.floor(from) : from)
  const high = Math.min(width - 1, truncate ? Math.ceil(to) : to)
  return Math.min(1, Math.max(0, (index - low) / (high === low ? 0.001 : high - low)))
}

type Yarn = Extract<RopeScaling, { kind: 'yarn' }>
