/**
 * Names and shapes of what goes in and out of our graphs: the contract between the graph writer (core/model) and the
 * engine (core/engine). T: tokens of all slots, packed; B: slots; H: hidden size; M: selected rows; V: vocabulary.
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
 * Parts with attention also take the packing (`spread`, `sizes`, `tokens` only where B > 1), `seqlens`, `totals`, and
 * per slot and layer the KV buffers, which are appended to in place (past and present are the same memory).
 */
export const graphInputs = {
  /** int64 [1, T] token ids. */
  ids: 'ids',
  /** float16 [1, T, H] hidden states from the wire. */
  half: 'half',
  /** float32 [W, H] rows that fp16 could not hold; they replace the rows of `half` that `wideAt` names. W may be 0. */
  wide: 'wide',
  /** int64 [W, 1] row numbers within T. */
  wideAt: 'wide_at',
  /** int64 [T + unused slots] the packed rows in the order of the slots: 0 … T-1, then row 0 for every unused slot. */
  spread: 'spread',
  /** int64 [B] rows of each slot; unused slots come last and have 1. */
  sizes: 'sizes',
  /** int64 [1] = T; cuts off what unused slots appended. */
  tokens: 'tokens',
  /** int32 [B] total - 1 of each slot; unused slots 0. */
  seqlens: 'seqlens',
  /** int32 [B] past + new rows of each slot; unused slots 1. */
  totals: 'totals',
  /** int64 [M] packed rows that are returned. */
  select: 'select',
} as const

/** Names of one set of states: see half, wide and wideAt above. */
export interface StatesInputNames {
  readonly half: string
  readonly wide: string
  readonly wideAt: string
}

/** The features of an adapter: [1, T, H] as `half`, with wide rows of their own. */
export const featureInputs = {
  half: 'features_half',
  wide: 'features_wide',
  wideAt: 'features_wide_at',
} as const satisfies StatesInputNames

export const graphOutputs = {
  /** float32 [1, T or M, H] */
  states: 'states',
  /** float16 [1, T or M, H] the same rows, rounded to nearest even: what crosses the wire. */
  statesHalf: 'states_half',
  /** float32 [1, T or M] largest magnitude of each row; above 65,504 the row travels as fp32. */
  peak: 'peak',
  /** float32 [1, T or M, V]; of medusa [1, T·K, V], the heads of a row one after another */
  logits: 'logits',
} as const

/**
 * Where rows may branch, per slot: the rows' positions, int64 [1, S], and what is added to the scores of their attention,
 * float32 [1, 1, S, total].
 */
export const treeNames = (slot: number) => ({ positions: `positions.${slot}`, bias: `bias.${slot}` })

/** float32 [1, kvHeads, capacity, headDim]; layers are numbered within the part, from 0. */
export const kvNames = (slot: number, layer: number) => ({
  pastKey: `past_key.${slot}.${layer}`,
  pastValue: `past_value.${slot}.${layer}`,
  presentKey: `present_key.${slot}.${layer}`,
  presentValue: `present_value.${slot}.${layer}`,
})
