export interface KvShape {
  readonly layers: number
  readonly kvHeads: number
  readonly headDim: number
}

/** Values of one position: keys and values of all heads of all layers. */
export const rowValuesOf = ({ layers, kvHeads, headDim }: KvShape) => 2 * layers * kvHeads * headDim
