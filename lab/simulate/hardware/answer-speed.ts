import type { MeasuredRates } from './board.ts'
import { headOf, type ModelShape, wholeModel } from './model-shape.ts'
import { type Hardware, headS, stepS, workOf } from './roofline.ts'

/** How fast one machine makes a single answer with a whole model. */
export interface AnswerSpeed {
  /** Seconds to the first token. @param tokens of the prompt, and of the answer so far */
  prefillS(tokens: number): number
  /** Seconds of one more token. @param context positions before it */
  decodeS(context: number): number
}

/** @param measured rates of this machine with this model, which count before the roofline */
export function answerSpeed(hardware: Hardware, shape: ModelShape, measured?: MeasuredRates): AnswerSpeed {
  if (measured) {
    const { prefillTokensPerS, decodeTokensPerS } = measured
    return { prefillS: (tokens) => tokens / prefillTokensPerS, decodeS: () => 1 / decodeTokensPerS }
  }
  const part = wholeModel(shape)
  const oneTokenS = headS(hardware, headOf(shape), 1)
  return {
    prefillS: (tokens) => stepS(hardware, part, workOf(tokens, 0)) + oneTokenS,
    decodeS: (context) => stepS(hardware, part, workOf(1, context)) + oneTokenS,
  }
}
