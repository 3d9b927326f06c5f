import { convChannels, type DeltaShape } from './architecture.ts'

/** Recurrent layers of a part. */
export type RecurrentShape = DeltaShape & { readonly layers: number }

/** The most states that a sequence holds: the last two, four at block borders, and the one that a step writes. See docs/adr/0026. */
export const maxStates = 7

/** Values of the state of one sequence in all recurrent layers of a part. */
export const stateValuesOf = (shape: RecurrentShape): number => shape.layers * (convValuesOf(shape) + deltaValuesOf(shape))

const convValuesOf = (shape: DeltaShape) => (shape.taps - 1) * convChannels(shape)
const deltaValuesOf = ({ valueHeads, keyDim, valueDim }: DeltaShape) => valueHeads * keyDim * valueDim
