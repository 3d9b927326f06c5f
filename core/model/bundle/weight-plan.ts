import { attentionOf, type PartSpec, ropesOf, type WeightFormat } from './architecture.ts'
import { codeBytes, codeFormat, zeroPointBytes } from './block-codes.ts'
import type { WeightEntry } from './manifest.ts'
import { listParameters, type Matrix, type PartParameters, partParameters, rotaryNames, type Vector } from './parameters.ts'
import { rotaryPositions, rotatedOf } from './rope.ts'

/** The position of each weight of a part in its file. */
export interface PartPlan {
  readonly spec: PartSpec
  readonly parameters: PartParameters
  /** The part's own weights file, written in the order of its entries. */
  readonly file: string
  readonly bytes: number
  /** A shared weight names the file of the part that was planned first. */
  readonly weights: readonly WeightEntry[]
  /** Parameters stored by another part or by the embedding: a tied head, and the LLM's norm and head in drafters. */
  readonly shared: ReadonlySet<Matrix | Vector>
}

/** Name of the matrix whose rows the graphs gather, in fp32 and fp16. */
export const embeddingWeight = 'embedding.weight'

type Unplaced = Omit<WeightEntry, 'file' | 'offset'>

/** A cache line; mapped files start on a page. */
const alignment = 64

export function planParts(specs: readonly PartSpec[]): PartPlan[] {
  const places: Places = new Map()
  return specs.map((spec) => planPart(spec, places))
}

/** Parameters that this part stores itself. */
export function ownParameters({ parameters, shared }: PartPlan): (Matrix | Vector)[] {
  return listParameters(parameters).filter((parameter) => !shared.has(parameter))
}

/** Names of a matrix's initialisers in the graph. */
export function matrixNames({ name }: Matrix): { weight: string; codes: string; scales: string; zeroPoints: string } {
  return { weight: `${name}.weight`, codes: `${name}.codes`, scales: `${name}.scales`, zeroPoints: `${name}.zeros` }
}

/** Embedding and head may have a format of their own. */
export function matrixFormat({ format, vocabularyFormat = format }: PartSpec, { name }: Matrix): WeightFormat {
  return name === 'embedding' || name === 'head' ? vocabularyFormat : format
}

/** Entries that several parts may share, by tensor of the LLM and suffix of the entry's name. */
type Places = Map<string, WeightEntry>

function planPart(spec: PartSpec, places: Places): PartPlan {
  const parameters = partParameters(spec)
  const file = `${spec.part}.weights`
  const weights: WeightEntry[] = []
  const shared = new Set<Matrix | Vector>()
  let bytes = 0
  const place = (entry: Unplaced): WeightEntry => {
    const offset = Math.ceil(bytes / alignment) * alignment
    bytes = offset + entry.bytes
    const placed = { ...entry, file, offset }
    weights.push(placed)
    return placed
  }
  for (const entry of rotaryEntries(spec)) place(entry)
  const { embedding, head } = parameters
  const norm = parameters.norm ?? parameters.draftInput?.norm
  for (const parameter of listParameters(parameters)) {
    const canShare = parameter === embedding || parameter === norm || parameter === head
    for (const entry of entriesOf(parameter, parameter === embedding, spec)) {
      const key = `${parameter.sources[0]?.tensor}:${entry.name.slice(parameter.name.length)}`
      const known = canShare ? places.get(key) : undefined
      if (known) {
        weights.push({ ...entry, file: known.file, offset: known.offset })
        shared.add(parameter)
      } else {
        const placed = place(entry)
        if (canShare) places.set(key, placed)
      }
    }
  }
  return { spec, parameters, file, bytes, weights, shared }
}

function rotaryEntries(spec: PartSpec): Unplaced[] {
  const { headDim } = attentionOf(spec)
  return ropesOf(spec).flatMap(([name, rope]) => {
    const dims = [rotaryPositions(spec.model.dims.contextLimit), rotatedOf(rope, headDim) / 2]
    return Object.values(rotaryNames(name)).map((table) => unplaced(table, 'float32', dims))
  })
}

function entriesOf(parameter: Matrix | Vector, isEmbedding: boolean, spec: PartSpec): Unplaced[] {
  if (!('columns' in parameter)) return [unplaced(parameter.name, 'float32', [...(parameter.dims ?? [parameter.length])])]
  const { rows, columns } = parameter
  const names = matrixNames(parameter)
  const format = matrixFormat(spec, parameter)
  const coded = codeFormat(format)
  if (!coded) return [unplaced(names.weight, format.name === 'fp16' ? 'float16' : 'float32', [rows, columns])]
  const blocks = columns / coded.blockSize
  // The bytes are the same. GatherBlockQuantized expects whole rows, MatMulNBits expects blocks.
  const codes = isEmbedding ? [rows, codeBytes(columns, coded)] : [rows, blocks, codeBytes(coded.blockSize, coded)]
  const entries = [unplaced(names.codes, 'uint8', codes), unplaced(names.scales, 'float32', [rows, blocks])]
  return coded.zeroPoints ? [...entries, unplaced(names.zeroPoints, 'uint8', [rows, zeroPointBytes(blocks, coded)])] : entries
}

function unplaced(name: string, type: WeightEntry['type'], dims: number[]): Unplaced {
  const size = { float32: 4, float16: 2, uint8: 1 }[type]
  return { name, type, dims, bytes: dims.reduce((product, dim) => product * dim, size) }
}
