import type { Board } from '../hardware/board.ts'
import { headOf, type TransformerShape, wholeModel } from '../hardware/model-shape.ts'
import { headS, type StepWork, stepS } from '../hardware/roofline.ts'

/**
 * Seconds of a step of a whole model on a device at full speed: by rates that were measured with it there, else by the roofline.
 * Measured rates are of one answer; packed sequences are taken to share a step until prompts would take as long.
 */
export function smallModelStepS(board: Board, shape: TransformerShape, work: StepWork): number {
  const { chosen = 0 } = work
  const rates = board.measured[shape.name]
  if (rates)
    return work.rows === 0 ? 0 : Math.max(chosen > 0 ? 1 / rates.decodeTokensPerS : 0, work.rows / rates.prefillTokensPerS)
  return stepS(board.hardware, wholeModel(shape), work) + headS(board.hardware, headOf(shape), chosen)
}

/** Bytes of all weights, once. */
export const modelBytes = (shape: TransformerShape): number => wholeModel(shape).weightBytes + headOf(shape).weightBytes
