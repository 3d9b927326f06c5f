import { headOf, type ModelPart, type TransformerShape } from '../hardware/model-shape.ts'
import { type Hardware, headS, stepS, workOf } from '../hardware/roofline.ts'

/** Steps of one size, as they were measured. */
export interface MeasuredSteps {
  readonly streams: number
  /** Of each stream, after `context` positions; a mean where they differ. */
  readonly rows: number
  readonly context: number
  /** Tokens that were chosen: rows of the head. */
  readonly chosen: number
  readonly seconds: readonly number[]
}

/** What measured steps went through. */
export interface MeasuredModel {
  readonly shape: TransformerShape
  readonly part: ModelPart
}

/** What the cost model says of such a step, in seconds. */
export function predictedS(hardware: Hardware, { shape, part }: MeasuredModel, { streams, ...steps }: MeasuredSteps): number {
  const { kvPositions, attended } = workOf(steps.rows, steps.context)
  const work = { streams, rows: streams * steps.rows, kvPositions: streams * kvPositions, attended: streams * attended }
  return stepS(hardware, part, work) + headS(hardware, headOf(shape), steps.chosen)
}
