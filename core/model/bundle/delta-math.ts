import { convChannels, type DeltaShape } from './architecture.ts'
import { goldenRows } from './golden.ts'
import { silu } from './golden-math.ts'

/** The vectors of a Gated DeltaNet block, as the bundle stores them. */
interface DeltaVectors {
  /** [channels, taps] */
  readonly conv: Float32Array
  readonly decayBias: Float32Array
  /** Negative. */
  readonly decayScale: Float32Array
  readonly outputNorm: Float32Array
}

/**
 * Gated DeltaNet over the golden rows, as golden-math.ts: Yang et al. 2024, arXiv:2412.06464, eq. (10), with the gates of
 * transformers' Qwen3.5.
 * @param projected [goldenRows, channels + valueHeads · (valueDim + 2)]: queries, keys, values, gate, update rates, decays
 * @returns [goldenRows, valueHeads · valueDim]
 */
export function deltaNet(projected: Float32Array, shape: DeltaShape, vectors: DeltaVectors, epsilon: number): Float32Array {
  const { keyHeads, valueHeads, keyDim, valueDim } = shape
  const channels = convChannels(shape)
  const values = valueHeads * valueDim
  const width = channels + values + 2 * valueHeads
  const mixed = convolve(projected, width, channels, shape.taps, vectors.conv)
  const out = new Float32Array(goldenRows * values)
  for (let head = 0; head < valueHeads; head++) {
    const state = new Float64Array(keyDim * valueDim)
    const keyHead = Math.floor((head * keyHeads) / valueHeads) * keyDim
    for (let row = 0; row < goldenRows; row++) {
      const gates = row * width + channels + values
      const rate = sigmoid(projected[gates + head]!)
      const decay = Math.exp(
        vectors.decayScale[head]! * softplus(projected[gates + valueHeads + head]! + vectors.decayBias[head]!),
      )
      const at = row * channels + keyHead
      const query = unit(mixed, at, keyDim)
      const key = unit(mixed, at + keyHeads * keyDim, keyDim)
      const value = row * channels + 2 * keyHeads * keyDim + head * valueDim
      for (let i = 0; i < state.length; i++) state[i] = state[i]! * decay
      for (let j = 0; j < valueDim; j++) {
        let known = 0
        for (let i = 0; i < keyDim; i++) known += key[i]! * state[i * valueDim + j]!
        const change = rate * (mixed[value + j]! - known)
        let read = 0
        for (let i = 0; i < keyDim; i++) {
          const next = state[i * valueDim + j]! + key[i]! * change
          state[i * valueDim + j] = next
          read += query[i]! * next
        }
        out[row * values + head * valueDim + j] = read / Math.sqrt(keyDim)
      }
    }
  }
  gateHeads(out, projected, { width, channels, valueDim }, vectors.outputNorm, epsilon)
  return out
}

/** SiLU of the causal convolution of each channel: [goldenRows, channels]. */
function convolve(rows: Float32Array, width: number, channels: number, taps: number, weights: Float32Array): Float32Array {
  const out = new Float32Array(goldenRows * channels)
  for (let row = 0; row < goldenRows; row++)
    for (let channel = 0; channel < channels; channel++)
      for (let tap = Math.max(0, taps - 1 - row); tap < taps; tap++)
        out[row * channels + channel]! += weights[channel * taps + tap]! * rows[(row - taps + 1 + tap) * width + channel]!
  return silu(out)
}

/** RMSNorm of each head, times SiLU of its gate. */
function gateHeads(
  out: Float32Array,
  projected: Float32Array,
  { width, channels, valueDim }: { readonly width: number; readonly channels: number; readonly valueDim: number },
  norm: Float32Array,
  epsilon: number,
): void {
  const values = out.length / goldenRows
  for (let start = 0; start < out.length; start += valueDim) {
    const gate = Math.floor(start / values) * width + channels + (start % values)
    let squares = 0
    for (let i = 0; i < valueDim; i++) squares += out[start + i]! ** 2
    const scale = 1 / Math.sqrt(squares / valueDim + epsilon)
    for (let i = 0; i < valueDim; i++) {
      const open = projected[gate + i]!
      out[start + i] = out[start + i]! * scale * norm[i]! * open * sigmoid(open)
    }
  }
}

/** A head divided by its length. */
function unit(values: Float32Array, at: number, length: number): Float64Array {
  const head = Float64Array.from(values.subarray(at, at + length))
  const scale = 1 / Math.sqrt(head.reduce((sum, value) => sum + value * value, 0) + 1e-6)
  return head.map((value) => value * scale)
}

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x))

const softplus = (x: number) => (x > 20 ? x : Math.log1p(Math.exp(x)))
