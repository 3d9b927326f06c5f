import { headOf, layersOf, type TransformerShape } from '../hardware/model-shape.ts'
import { addWork, type Hardware, handOverS, headS, stepS } from '../hardware/roofline.ts'
import type { StepContent } from './step-content.ts'

/**
 * Seconds of the steps of a model: the middle for all rows, the layers before it and the head for answers, as the bridge
 * computes them, through all stages of the pipeline.
 * @param hardware of one stage
 */
export function stepCost(
  hardware: Hardware,
  shape: TransformerShape,
  { inputLayers = 0, pipeline = 1 }: { readonly inputLayers?: number; readonly pipeline?: number } = {},
): (step: StepContent) => number {
  const input = layersOf(shape, 0, inputLayers)
  const middle = layersOf(shape, inputLayers, shape.layers)
  const head = headOf(shape)
  return ({ answers, devices, chosen, rows }) =>
    stepS(hardware, input, answers) +
    stepS(hardware, middle, { ...addWork(answers, devices), chosen }) +
    headS(hardware, head, chosen) +
    (pipeline - 1) * handOverS(hardware, shape, rows)
}
