import { concatStates, fromStates, type States, sliceStates, toStates } from '../../wire/protocol/states.ts'
import { attentionOf, type PartSpec } from './architecture.ts'
import { type GoldenVector, goldenIds, goldenLogitColumns, goldenRows, goldenTolerance } from './golden.ts'
import { addInto, attend, gatedSilu, multiplyRows, rmsNorm, silu } from './golden-math.ts'
import { type AttentionBlock, type Matrix, type MedusaBlocks, type Mlp, rotaryNames, type Vector } from './parameters.ts'
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
  for (const { attention, mlp } of parameters.blocks) {
    addInto(rows, await runAttention(spec, weights, attention, { rows, features }, epsilon))
    if (mlp) addInto(rows, await runMlp(weights, mlp, rows, epsilon))
  }
  if (!parameters.norm || !parameters.head) {
    const expected = { rows: goldenRows, width: hidden, values: rows }
    return { golden: { input, expected, tolerance }, states: toStates(rows, hidden) }
  }
  const normalised = rmsNorm(rows, await weights.writeVector(parameters.norm), epsilon)
  const headInputs = parameters.medusa ? await runMedusaBlocks(weights, parameters.medusa, normalised) : [normalised]
  await weights.writeMatrix(parameters.head)
  const columns = goldenLogitColumns(vocab)
  const head = await weights.rows(parameters.head, columns)
  const values = goldenLogits(headInputs, head, hidden)
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
  const { blocks, headDim, rope } = attentionOf(spec)
  if (blocks === 0) return
  const { cos, sin } = rotaryRows(inverseFrequencies(headDim, rope), 0, rotaryPositions(spec.model.dims.contextLimit))
  await weights.writeTable(rotaryNames.cos, cos)
  await weights.writeTable(rotaryNames.sin, sin)
}

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
    return { rows: await weights.rows(parameters.embedding, ids), features: undefined, input: { kind: 'ids', ids } }
  }
  if (!incoming) throw new Error(`the part ${spec.part} needs input states`)
  const rows = fromStates(incoming)
  const input = { kind: 'states' as const, ...incoming }
  if (!spec.adapter?.features) return { rows, features: undefined, input }
  const features = shiftedByOne(incoming)
  return { rows, features: fromStates(features), input: { ...input, features } }
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
  { rows, features }: Pick<PartInput, 'rows' | 'features'>,
  epsilon: number,
): Promise<Float32Array> {
  const shape = attentionOf(spec)
  const normalised = rmsNorm(rows, await weights.writeVector(block.norm), epsilon)
  if (block.features && features) {
    const known = rmsNorm(features, await weights.writeVector(block.features.norm), epsilon)
    addInto(normalised, await weights.multiply(block.features.projection, known))
  }
  const qkv = await linear(weights, block.qkv, block.qkvBias, normalised)
  const rotary = rotaryRows(inverseFrequencies(shape.headDim, shape.rope), 0, goldenRows)
  return linear(weights, block.output, block.outputBias, attend(qkv, shape, rotary))
}

async function runMlp(weights: WeightWriter, mlp: Mlp, rows: Float32Array, epsilon: number): Promise<Float32Array> {
  const normalised = rmsNorm(rows, await weights.writeVector(mlp.norm), epsilon)
  const gate = await linear(weights, mlp.gate, mlp.gateBias, normalised)
  const up = await linear(weights, mlp.up, mlp.upBias, normalised)
  return linear(weights, mlp.down, mlp.downBias, gatedSilu(gate, up))
}

async function linear(weights: WeightWriter, matrix: Matrix, bias: Vector | undefined, x: Float32Array): Promise<Float32Array> {
  const out = await weights.multiply(matrix, x)
  if (bias) addInto(out, await weights.writeVector(bias))
  return out
}
