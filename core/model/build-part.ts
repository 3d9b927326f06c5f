import type { States } from '../protocol/states.ts'
import { attentionOf, type PartSpec } from './architecture.ts'
import { fromStates, type GoldenVector, goldenIds, goldenLogitColumns, goldenRows, goldenTolerance, toStates } from './golden.ts'
import { addInto, attend, gatedSilu, multiplyRows, rmsNorm } from './golden-math.ts'
import { type AttentionBlock, type Matrix, type Mlp, rotaryNames, type Vector } from './parameters.ts'
import { inverseFrequencies, rotaryRows } from './rope.ts'
import type { PartPlan } from './weight-plan.ts'
import type { WeightStream } from './weight-stream.ts'

export interface WrittenPart {
  readonly golden: GoldenVector
  /** The rows that the part returned for the golden sequence, as the wire carries them; parts that end in logits have none. */
  readonly states: States | undefined
}

/**
 * Writes all weights of a part by running the golden rows through it, weight by weight: each is read, stored, used and
 * forgotten, so memory does not depend on the model's size.
 * @param incoming states for parts that take them
 */
export async function writePart(plan: PartPlan, weights: WeightStream, incoming: States | undefined): Promise<WrittenPart> {
  const { spec, parameters } = plan
  const { hidden, vocab } = spec.model.dims
  const epsilon = spec.adapter?.epsilon ?? spec.model.epsilon
  const tolerance = goldenTolerance(spec.format)
  await writeRotaryTables(spec, weights)
  const { rows, input } = await firstRows(plan, weights, incoming)
  for (const { attention, mlp } of parameters.blocks) {
    addInto(rows, await runAttention(spec, weights, attention, rows, epsilon))
    if (mlp) addInto(rows, await runMlp(weights, mlp, rows, epsilon))
  }
  if (!parameters.norm || !parameters.head) {
    const expected = { rows: goldenRows, width: hidden, values: rows }
    return { golden: { input, expected, tolerance }, states: toStates(rows, hidden) }
  }
  const normalised = rmsNorm(rows, await weights.vector(parameters.norm), epsilon)
  if (!spec.model.tiedEmbeddings) await weights.copy(parameters.head)
  const columns = goldenLogitColumns(vocab)
  const values = new Float32Array(goldenRows * columns.length)
  multiplyRows(normalised, await weights.rows(parameters.head, columns), hidden, values, 0)
  return { golden: { input, expected: { rows: goldenRows, width: vocab, columns, values }, tolerance }, states: undefined }
}

async function writeRotaryTables(spec: PartSpec, weights: WeightStream): Promise<void> {
  const { blocks, headDim, rope } = attentionOf(spec)
  if (blocks === 0) return
  const { cos, sin } = rotaryRows(inverseFrequencies(headDim, rope), 0, spec.model.dims.contextLimit)
  await weights.table(rotaryNames.cos, cos)
  await weights.table(rotaryNames.sin, sin)
}

async function firstRows(
  { spec, parameters }: PartPlan,
  weights: WeightStream,
  incoming: States | undefined,
): Promise<{ rows: Float32Array; input: GoldenVector['input'] }> {
  if (parameters.embedding) {
    const ids = goldenIds(spec.model.dims.vocab)
    await weights.copy(parameters.embedding)
    return { rows: await weights.rows(parameters.embedding, ids), input: { kind: 'ids', ids } }
  }
  if (!incoming) throw new Error(`the part ${spec.part} needs states to begin with`)
  const { wide, ...block } = incoming
  const input = { kind: 'states' as const, ...block, ...(wide ? { wide: { index: [...wide.index], values: wide.values } } : {}) }
  return { rows: fromStates(incoming), input }
}

async function runAttention(
  spec: PartSpec,
  weights: WeightStream,
  block: AttentionBlock,
  rows: Float32Array,
  epsilon: number,
): Promise<Float32Array> {
  const shape = attentionOf(spec)
  const normalised = rmsNorm(rows, await weights.vector(block.norm), epsilon)
  const qkv = await linear(weights, block.qkv, block.qkvBias, normalised)
  const rotary = rotaryRows(inverseFrequencies(shape.headDim, shape.rope), 0, goldenRows)
  return linear(weights, block.output, block.outputBias, attend(qkv, shape, rotary))
}

async function runMlp(weights: WeightStream, mlp: Mlp, rows: Float32Array, epsilon: number): Promise<Float32Array> {
  const normalised = rmsNorm(rows, await weights.vector(mlp.norm), epsilon)
  const gate = await linear(weights, mlp.gate, mlp.gateBias, normalised)
  const up = await linear(weights, mlp.up, mlp.upBias, normalised)
  return linear(weights, mlp.down, mlp.downBias, gatedSilu(gate, up))
}

async function linear(weights: WeightStream, matrix: Matrix, bias: Vector | undefined, x: Float32Array): Promise<Float32Array> {
  const out = await weights.multiply(matrix, x)
  if (bias) addInto(out, await weights.vector(bias))
  return out
}
