import { headOf, layersOf, type ModelShape } from '../hardware/model-shape.ts'
import { addWork, type Hardware, headS, stepS } from '../hardware/roofline.ts'
import type { StepContent } from './step-content.ts'

/**
 * Seconds of the steps of a model: the middle for all rows, the layers before it and the head for answers, as the bridge
 * computes them.
 * @param inputLayers that devices compute themselves
 */
export function stepCost(hardware: Hardware, shape: ModelShape, inputLayers = 0): (step: StepContent) => number {
  const input = layersOf(shape, 0, inputLayers)
  const middle = layersOf(shape, inputLayers, shape.layers)
  const head = headOf(shape)
  return ({ answers, devices, chosen }) =>
    stepS(hardware, input, answers) + stepS(hardware, middle, addWork(answers, devices)) + headS(hardware, head, chosen)
}
