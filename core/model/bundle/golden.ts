import { z } from 'zod'
import { orThrow } from '../../kit/base/errors.ts'
import type { WeightFormat } from './architecture.ts'

/** Length of the sequence that golden vectors are made of. */
export const goldenRows = 4

/** Number of vocabulary columns, evenly spaced, at which logits are compared. */
const goldenColumns = 256

/** Rows of each step of the self-test: a first prompt, a chunk after it, a decode step. */
export const goldenSteps = [1, 2, 1] as const

const Floats = z.base64().transform((text) => toFloats(text))
const Halves = z.base64().transform((text) => toHalves(text))
const count = z.int().min(0)

const Block = z.object({
  rows: count,
  width: count,
  half: Halves,
  wide: z.object({ index: z.array(count).readonly(), values: Floats }).optional(),
})

/** A fixed input of a part and its expected output on any machine. Numbers are little-endian in base64. */
export const GoldenVector = z.object({
  input: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('ids'), ids: z.array(count) }),
    Block.extend({ kind: z.literal('states'), features: Block.optional(), ids: z.array(count).optional() }),
  ]),
  expected: z.object({
    rows: count,
    width: count,
    /** The columns of the output that `values` holds; absent: all. */
    columns: z.array(count).optional(),
    /** [rows, columns or width] fp32 */
    values: Floats,
  }),
  /** Maximum relative error of a row: Euclidean distance to the expected row over the length of the expected row. */
  tolerance: z.number().positive(),
})
export type GoldenVector = z.infer<typeof GoldenVector>

/** @throws BrimError BUNDLE_INVALID */
export function parseGolden(file: string, json: string): GoldenVector {
  return orThrow(
    () => GoldenVector.parse(JSON.parse(json)),
    'BUNDLE_INVALID',
    `${file} is not a golden vector`,
    'build or copy the bundle again',
  )
}

export function serializeGolden({ input, expected, tolerance }: GoldenVector): string {
  const printBlock = (block: z.infer<typeof Block>) => ({
    ...block,
    half: toBase64(block.half),
    ...(block.wide ? { wide: { index: block.wide.index, values: toBase64(block.wide.values) } } : {}),
  })
  const printStates = ({ features, ids, ...block }: Extract<GoldenVector['input'], { kind: 'states' }>) => ({
    ...printBlock(block),
    kind: block.kind,
    ...(features ? { features: printBlock(features) } : {}),
    ...(ids ? { ids } : {}),
  })
  const printable = input.kind === 'ids' ? input : printStates(input)
  return `${JSON.stringify({ input: printable, expected: { ...expected, values: toBase64(expected.values) }, tolerance })}\n`
}

/** Token ids of the golden sequence, the same for every model with this vocabulary. */
export function goldenIds(vocab: number): number[] {
  return Array.from({ length: goldenRows }, (_, i) => ((i + 1) * 2_654_435_761) % vocab)
}

export function goldenLogitColumns(vocab: number): number[] {
  const columns = Math.min(vocab, goldenColumns)
  return Array.from({ length: columns }, (_, i) => Math.floor((i * vocab) / columns))
}

/**
 * States are compared after rounding to fp16, an error of 3e-4. Accuracy level 4 also rounds activations to 8 bits in every
 * product: an error of 0.02 after 24 random layers, and more where activations have outliers. A wrong kernel or weight
 * gives an error of about 1.
 */
export function goldenTolerance(format: WeightFormat): number {
  return (format.name === 'int4' || format.name === 'int8') && format.accuracyLevel === 4 ? 0.2 : 1e-3
}

/** Where activations are fp16, each of the sums between layers is rounded. */
export const halfTolerance = 0.02

/**
 * The largest relative error of a row; see GoldenVector.tolerance.
 * @param actual [rows, width] the part's whole output; any NaN gives infinity
 */
export function goldenError(expected: GoldenVector['expected'], actual: Float32Array): number {
  const columns = expected.columns ?? Array.from({ length: expected.width }, (_, column) => column)
  let worst = 0
  for (let row = 0; row < expected.rows; row++) {
    let distance = 0
    let length = 0
    for (const [i, column] of columns.entries()) {
      const want = expected.values[row * columns.length + i]!
      distance += (actual[row * expected.width + column]! - want) ** 2
      length += want ** 2
    }
    const error = Math.sqrt(distance / Math.max(length, Number.MIN_VALUE))
    worst = Number.isFinite(error) ? Math.max(worst, error) : Number.POSITIVE_INFINITY
  }
  return worst
}

function toBase64(values: Float32Array | Uint16Array): string {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64')
}

function toFloats(text: string): Float32Array {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'))
  return new Float32Array(bytes.buffer, 0, Math.floor(bytes.length / 4))
}

function toHalves(text: string): Uint16Array {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'))
  return new Uint16Array(bytes.buffer, 0, Math.floor(bytes.length / 2))
}
