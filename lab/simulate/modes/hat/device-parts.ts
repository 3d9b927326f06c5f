import { headOf, layersOf, type ModelPart, type TransformerShape } from '../../hardware/model-shape.ts'
import { type Hardware, headS, stepS, workOf } from '../../hardware/roofline.ts'
import { medusaHeads } from './draft-process.ts'

/** Seconds of what a device computes of a split model. `context`: positions before the rows. */
export interface DeviceParts {
  /** The first layers. */
  inputS(hardware: Hardware, rows: number, context: number): number
  /** The head, for the deep states that came back. */
  outputS(hardware: Hardware, rows: number): number
  /** The adapter without the head, as it follows a prompt. */
  adapterS(hardware: Hardware, rows: number, context: number): number
  /** A guess of the drafter after each of these rows: adapter and head. */
  guessS(hardware: Hardware, rows: number, context: number): number
  /** Medusa's heads on one deep state. */
  medusaS(hardware: Hardware): number
}

export function devicePartsOf(model: TransformerShape, layers: number): DeviceParts {
  const input = layersOf(model, 0, layers)
  const head = headOf(model)
  const adapter = adapterOf(model)
  // Each head: a residual block of d × d, and a head of its own.
  const block = model.hidden ** 2
  const medusa = {
    weightBytes: medusaHeads * (block * model.bytesPerWeight + head.weightBytes),
    flopPerRow: medusaHeads * (2 * block + head.flopPerRow),
  }
  const inputS = (hardware: Hardware, rows: number, context: number) => stepS(hardware, input, workOf(rows, context))
  const outputS = (hardware: Hardware, rows: number) => headS(hardware, head, rows)
  const adapterS = (hardware: Hardware, rows: number, context: number) => stepS(hardware, adapter, workOf(rows, context))
  return {
    inputS,
    outputS,
    adapterS,
    guessS: (hardware, rows, context) => adapterS(hardware, rows, context) + outputS(hardware, rows),
    medusaS: (hardware) => headS(hardware, medusa, 1),
  }
}

/** Λ of HAT: the attention of one layer, without its feed-forward part. */
function adapterOf(model: TransformerShape): ModelPart {
  return layersOf({ ...model, feedForward: 0 }, 0, 1)
}
