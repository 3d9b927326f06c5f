/**
 * Names and shapes of the graphs' inputs and outputs: the contract between the graph writer (core/model/bundle) and the engine
 * (core/model/engine). T: tokens of all slots, packed; B: slots; H: hidden size; M: selected rows; V: vocabulary.
 *
 * part      takes          returns                                attention
 * input     ids            states, statesHalf, peak  for all T    yes
 * middle    half + wide    states, statesHalf, peak  for select   yes
 * adapter   half + wide    states, statesHalf, peak  for select   yes
 * output    half + wide    logits                    for all T    no
 * medusa    half + wide    logits of K heads         for all T    no
 * whole     ids            logits                    for select   yes
 *
 * `adapter-paper` is an adapter. An adapter with features takes a second set of states, row for row (featureInputs).
 * Graphs for a device (a GPU) take and return `rows` and `states` in fp32 in place of half, wide, statesHalf and peak: rounding
 * to fp16 is the host's, as not every device has fp16.
 *
 * Parts with attention also take the packing (`sizes` only for B > 1), `seqlens`, `totals`, and the KV buffers per slot and
 * layer. Past and present are the same memory, so new rows are appended in place.
 */
export const graphInputs = {
  /** int64 [1, T] token ids. */
  ids: 'ids',
  /** float16 [1, T, H] hidden states from the wire. */
  half: 'half',
  /** float32 [W, H] rows that exceed fp16; they replace the rows `wideAt` of `half`. W may be 0. */
  wide: 'wide',
  /** int64 [W, 1] row numbers within T. */
  wideAt: 'wide_at',
  /** float32 [1, T, H] hidden states, in graphs for a device. */
  rows: 'rows',
  /** int64 [A] packed rows that attention reads, slot after slot. A slot may repeat its last row; unused slots read row 0. */
  spread: 'spread',
  /** int64 [B] rows that attention reads in each slot, A in all; unused slots come last and have 1. */
  sizes: 'sizes',
  /** int64 [T] for each packed row its index among the A rows of attention. */
  keep: 'keep',
  /** int64 [1] = T, instead of `keep` in graphs of bundles up to schema 2, where attention reads each packed row once. */
  tokens: 'tokens',
  /** int32 [B] total - 1 of each slot; unused slots 0. */
  seqlens: 'seqlens',
  /** int32 [B] past + rows that attention reads in each slot; unused slots 1. */
  totals: 'totals',
  /** int64 [O] packed rows that recurrent layers read, slot after slot: each row once; unused slots read row 0. */
  ownRows: 'own_rows',
  /** int64 [B] rows of each slot, O in all. Only for B > 1. */
  ownSizes: 'own_sizes',
  /** int64 [T] for each packed row its index among those O rows. */
  ownKeep: 'own_keep',
  /** int64 [M] packed rows that are returned. */
  select: 'select',
} as const

/** Input names of one block of states: see rows, half, wide and wideAt above. */
export interface StatesInputNames {
  readonly rows: string
  readonly half: string
  readonly wide: string
  readonly wideAt: string
}

/** An adapter's features: [1, T, H] as `half`, with their own wide rows. */
export const featureInputs = {
  rows: 'features',
  half: 'features_half',
  wide: 'features_wide',
  wideAt: 'features_wide_at',
} as const satisfies StatesInputNames

export const graphOutputs = {
  /** float32 [1, T or M, H] */
  states: 'states',
  /** float16 [1, T or M, H] the same rows rounded to nearest even, for the wire. */
  statesHalf: 'states_half',
  /** float32 [1, T or M] largest magnitude of each row; above 65,504 the row travels as fp32. */
  peak: 'peak',
  /** float32 [1, T or M, V]; of medusa [1, T·K, V], the heads of a row one after another */
  logits: 'logits',
} as const

/**
 * Inputs of each slot in graphs of several slots for a device, in place of `seqlens`, `totals`, `spread` and `sizes`: int32 [1],
 * int32 [1] and int64 [S]. Attention reads the totals on the host, so that a split would be copied back, and a GPU cannot
 * split into 16 at once.
 */
export const slotInputs = (slot: number) => ({ seqlen: `seqlens.${slot}`, total: `totals.${slot}`, spread: `spread.${slot}` })

/**
 * Inputs of graphs for trees, and of grouped ones (GraphForm), per slot: positions of the rows, int64 [1, S], and the bias of their attention scores, float32
 * [1, 1, S, total]: for layers that attend to all positions, and for those with a window. In a grouped graph, S counts a row once for
 * each query head of a group, `spread` has the heads of packed rows [A · 3 · kvHeads], and `keep` those of attended ones [T · heads].
 */
export const treeNames = (slot: number) => ({
  positions: `positions.${slot}`,
  bias: `bias.${slot}`,
  windowBias: `window_bias.${slot}`,
})

/**
 * Head dimensions above this take the operator's kernel without tiles: the tiled one sums the scores of a row in an order that
 * depends on how many rows follow it.
 */
export const maxTiledHeadDim = 128

/** float32 [1, kvHeads, capacity, headDim]; layers that attend are numbered within the part, from 0. */
export const kvNames = (slot: number, layer: number) => ({
  pastKey: `past_key.${slot}.${layer}`,
  pastValue: `past_value.${slot}.${layer}`,
  presentKey: `present_key.${slot}.${layer}`,
  presentValue: `present_value.${slot}.${layer}`,
})

/**
 * The state of a recurrent layer: float32 [1, taps - 1, channels] and [1, valueHeads, keyDim, valueDim]. Layers are numbered
 * within the part, from 0, without those that attend. Past and present are different memory.
 */
export const recurrentNames = (slot: number, layer: number) => ({
  pastConv: `past_conv.${slot}.${layer}`,
  pastDelta: `past_delta.${slot}.${layer}`,
  presentConv: `present_conv.${slot}.${layer}`,
  presentDelta: `present_delta.${slot}.${layer}`,
})
