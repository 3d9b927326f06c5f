import { concatStates, fromStates, type States, sliceStates, toStates } from '../../wire/protocol/states.ts'
import { attentionOf, type DeltaShape, layersOf, type PartSpec, type Rope, ropesOf } from './architecture.ts'
import { deltaNet } from './delta-math.ts'
import { type GoldenVector, goldenIds, goldenLogitColumns, goldenRows, goldenTolerance } from './golden.ts'
import { addInto, attend, gelu, multiplied, multiplyRows, normaliseHeads, openGate, rmsNorm, silu } from './golden-math.ts'
import {
  type AttentionBlock,
  type DeltaBlock,
  type DraftInput,
  type Matrix,
  type MedusaBlocks,
  type Mlp,
  rotaryNames,
  type Vector,
} from './parameters.ts'
import { inverseFrequencies, rotaryPositions, rotaryRows } from './rope.ts'
import type { PartPlan } from './weight-plan.ts'
import type { WeightWriter } from './weight-writer.ts'

interface WrittenPart {
  readonly golden: GoldenVector
  /** The part's output for the golden sequence, rounded as on the wire; undefined for parts that return logits. */
  readonly states: States | undefined
}

/**
 * Writes all weights of a part and computes its golden vector on the way. Only one weight is in memory at a time, so memory
 * does not depend on the model's size.
 * @param incoming input states of the golden sequence; undefined for parts that take token ids
 */
export async function writePart(plan: PartPlan, weights: WeightWriter, incoming: States | undefined): Promise<WrittenPart> {
  const { spec, parameters } = plan
  const { hidden, vocab } = spec.model.dims
  const epsilon = spec.adapter?.epsilon ?? spec.model.epsilon
  const tolerance = goldenTolerance(spec.format)
  await writeRotaryTables(spec, weights)
  const { rows, features, input } = await partInput(plan, weights, incoming)
  const added = async (result: Float32Array, after: Vector | undefined) => {
    const normalised = await normalise(weights, result, after, epsilon)
    addInto(rows, spec.adapter ? normalised : scaled(normalised, spec.model.scales.residual))
  }
  for (const [layer, { mixer, mlp }] of parameters.blocks.entries()) {
    const mixed =
      mixer.kind === 'attention'
        ? await runAttention(spec, weights, mixer, { rows, features, layer }, epsilon)
        : await runDelta(spec.model.delta, weights, mixer, rows, epsilon)
    await added(mixed, mixer.after)
    if (mlp) await added(await runMlp(spec, weights, mlp, rows, epsilon), mlp.after)
  }
  if (!parameters.head) {
    const values = await normalise(weights, rows, parameters.norm, epsilon)
    const expected = { rows: goldenRows, width: hidden, values }
    return { golden: { input, expected, tolerance }, states: toStates(values, hidden) }
  }
  const normalised = await normalise(weights, rows, parameters.norm, epsilon)
  const headInputs = parameters.medusa ? await runMedusaBlocks(weights, parameters.medusa, normalised) : [normalised]
  await weights.writeMatrix(parameters.head)
  const columns = goldenLogitColumns(vocab)
  const head = await weights.rows(parameters.head, columns)
  const values = scaled(goldenLogits(headInputs, head, hidden), spec.model.scales.logits)
  const expected = { rows: goldenRows * headInputs.length, width: vocab, columns, values }
  return { golden: { input, expected, tolerance }, states: undefined }
}

/** f + SiLU(W_k·f + b_k) of each Medusa head k: per head [goldenRows, hidden]. */
async function runMedusaBlocks(
  weights: WeightWriter,
  { weight, bias }: MedusaBlocks,
  rows: Float32Array,
): Promise<Float32Array[]> {
  const changes = silu(await linear(weights, weight, bias, rows))
  const hidden = weight.columns
  return Array.from({ length: weight.rows / hidden }, (_, head) =>
    rows.map((value, i) => value + changes[Math.floor(i / hidden) * weight.rows + head * hidden + (i % hidden)]!),
  )
}

/** @param headInputs each [goldenRows, hidden]. @param head [columns, hidden]. @returns [goldenRows, headInputs.length, columns] */
function goldenLogits(headInputs: readonly Float32Array[], head: Float32Array, hidden: number): Float32Array {
  const columns = head.length / hidden
  const values = new Float32Array(goldenRows * headInputs.length * columns)
  for (const [at, rows] of headInputs.entries()) {
    const own = new Float32Array(goldenRows * columns)
    multiplyRows(rows, head, hidden, own, 0)
    for (let row = 0; row < goldenRows; row++)
      values.set(own.subarray(row * columns, (row + 1) * columns), (row * headInputs.length + at) * columns)
  }
  return values
}

async function writeRotaryTables(spec: PartSpec, weights: WeightWriter): Promise<void> {
  const { headDim } = attentionOf(spec)
  for (const [name, rope] of ropesOf(spec)) {
    const { cos, sin } = tablesOf(rope, headDim, rotaryPositions(spec.model.dims.contextLimit))
    const names = rotaryNames(name)
    await weights.writeTable(names.cos, cos)
    await weights.writeTable(names.sin, sin)
  }
}

const tablesOf = (rope: Rope, headDim: number, positions: number) =>
  rotaryRows(inverseFrequencies(headDim, rope), 0, positions, rope.magnitude)

interface PartInput {
  /** [goldenRows, hidden] */
  readonly rows: Float32Array
  /** [goldenRows, hidden] */
  readonly features: Float32Array | undefined
  readonly input: GoldenVector['input']
}

async function partInput(
  { spec, parameters }: PartPlan,
  weights: WeightWriter,
  incoming: States | undefined,
): Promise<PartInput> {
  if (parameters.embedding) {
    const ids = goldenIds(spec.model.dims.vocab)
    await weights.writeMatrix(parameters.embedding)
    const rows = scaled(await weights.rows(parameters.embedding, ids), spec.model.scales.embedding)
    if (parameters.draftInput)
      return draftInputs(spec, weights, parameters.draftInput, { ids, rows, deep: given(spec, incoming) })
    return { rows, features: undefined, input: { kind: 'ids', ids } }
  }
  const states = given(spec, incoming)
  const rows = fromStates(states)
  const input = { kind: 'states' as const, ...states }
  if (!spec.adapter?.features) return { rows, features: undefined, input }
  const features = shiftedByOne(states)
  return { rows, features: fromStates(features), input: { ...input, features } }
}

function given({ part }: PartSpec, incoming: States | undefined): States {
  if (!incoming) throw new Error(`the part ${part} needs input states`)
  return incoming
}

/** Golden rows of a draft head: in the first half it reads deep states, in the second half these stand for its own guesses. */
async function draftInputs(
  { draftHead, model }: PartSpec,
  weights: WeightWriter,
  { norm, projection, bias }: DraftInput,
  { ids, rows, deep }: { readonly ids: number[]; readonly rows: Float32Array; readonly deep: States },
): Promise<PartInput> {
  const { width } = deep
  const zeros = { rows: goldenRows / 2, width, half: new Uint16Array((goldenRows / 2) * width) }
  const features = concatStates([sliceStates(deep, 0, goldenRows / 2), zeros], width)
  const guesses = concatStates([zeros, sliceStates(deep, goldenRows / 2, goldenRows)], width)
  const { epsilon } = draftHead?.llm ?? model
  const known = rmsNorm(fromStates(features), await weights.writeVector(norm), epsilon)
  addInto(known, fromStates(guesses))
  const joined = new Float32Array(2 * rows.length)
  for (let row = 0; row < goldenRows; row++) {
    joined.set(rows.subarray(row * width, (row + 1) * width), 2 * row * width)
    joined.set(known.subarray(row * width, (row + 1) * width), (2 * row + 1) * width)
  }
  const input = { kind: 'states' as const, ...guesses, features, ids }
  return { rows: await linear(weights, projection, bias, joined), features: undefined, input }
}

/** Golden features: no deep states exist at this point, so each row gets the shallow row before it, the first one zeros. */
function shiftedByOne(states: States): States {
  const { rows, width } = states
  return concatStates([{ rows: 1, width, half: new Uint16Array(width) }, sliceStates(states, 0, rows - 1)], width)
}

async function runAttention(
  spec: PartSpec,
  weights: WeightWriter,
  block: AttentionBlock,
  { rows, features, layer }: Pick<PartInput, 'rows' | 'features'> & { readonly layer: number },
  epsilon: number,
): Promise<Float32Array> {
  const shape = attentionOf(spec)
  const { rope, window } = layersOf(spec)[layer]!
  const normalised = await normalise(weights, rows, block.norm, epsilon)
  if (block.features && features) {
    const known = rmsNorm(features, await weights.writeVector(block.features.norm), epsilon)
    addInto(normalised, await weights.multiply(block.features.projection, known))
  }
  const projected = await linear(weights, block.qkv, block.qkvBias, normalised)
  const { heads, kvHeads, headDim } = shape
  const { qkv, gate } = block.gated ? openGate(projected, shape) : { qkv: projected, gate: undefined }
  const [queries, keys] = [heads * headDim, kvHeads * headDim]
  const { queryNorm, keyNorm } = block
  if (queryNorm) normaliseHeads(qkv, queries + 2 * keys, [0, queries], await weights.writeVector(queryNorm), epsilon)
  if (keyNorm) normaliseHeads(qkv, queries + 2 * keys, [queries, queries + keys], await weights.writeVector(keyNorm), epsilon)
  const own = ropesOf(spec).find(([name]) => name === rope)?.[1]
  const rotary = own && tablesOf(own, headDim, goldenRows)
  const scale = spec.adapter ? headDim ** -0.5 : spec.model.scales.attention
  const attended = attend(qkv, { heads, kvHeads, headDim, scale, window, rotary })
  const gated = gate ? attended.map((value, i) => value / (1 + Math.exp(-gate[i]!))) : attended
  return linear(weights, block.output, block.outputBias, gated)
}

async function runDelta(
  shape: DeltaShape | undefined,
  weights: WeightWriter,
  block: DeltaBlock,
  rows: Float32Array,
  epsilon: number,
): Promise<Float32Array> {
  if (!shape) throw new Error('a recurrent layer has no shape')
  const normalised = await normalise(weights, rows, block.norm, epsilon)
  const projected = await weights.multiply(block.input, normalised)
  const vectors = {
    conv: await weights.writeVector(block.conv),
    decayBias: await weights.writeVector(block.decayBias),
    decayScale: await weights.writeVector(block.decayScale),
    outputNorm: await weights.writeVector(block.outputNorm),
  }
  return weights.multiply(block.output, deltaNet(projected, shape, vectors, epsilon))
}

/** Copies: the rows are the residual stream. */
async function normalise(
  weights: WeightWriter,
  rows: Float32Array,
  norm: Vector | undefined,
  epsilon: number,
): Promise<Float32Array> {
  return norm ? rmsNorm(rows, await weights.writeVector(norm), epsilon) : rows.slice()
}

const scaled = (values: Float32Array, factor: number) => (factor === 1 ? values : values.map((value) => value * factor))

async function runMlp(
  { model }: PartSpec,
  weights: WeightWriter,
  mlp: Mlp,
  rows: Float32Array,
  epsilon: number,
): Promise<Float32Array> {
  const normalised = await normalise(weights, rows, mlp.norm, epsilon)
  const gate = await linear(weights, mlp.gate, mlp.gateBias, normalised)
  const up = await linear(weights, mlp.up, mlp.upBias, normalised)
  const active = model.activation === 'silu' ? silu(gate) : gelu(gate)
  return linear(weights, mlp.down, mlp.downBias, multiplied(active, up))
}

async function linear(weights: WeightWriter, matrix: Matrix, bias: Vector | undefined, x: Float32Array): Promise<Float32Array> {
  const out = await weights.multiply(matrix, x)
  if (bias) addInto(out, await weights.writeVector(bias))
  return out
}
