import { attentionOf, int4BlockSize, type PartSpec } from './architecture.ts'
import type { Format, WeightEntry } from './manifest.ts'
import { listParameters, type Matrix, type PartParameters, partParameters, rotaryNames, type Vector } from './parameters.ts'

/** Where each weight of a part will lie, decided before the first byte is read. */
export interface PartPlan {
  readonly spec: PartSpec
  readonly parameters: PartParameters
  /** The part's own weights file, written in the order of the entries that lie in it. */
  readonly file: string
  readonly bytes: number
  /** A tied head's entry names the file of the embedding. */
  readonly weights: readonly WeightEntry[]
}

type Unplaced = Omit<WeightEntry, 'file' | 'offset'>

/** A cache line; mapped files start on a page. */
const alignment = 64

export function planParts(specs: readonly PartSpec[]): PartPlan[] {
  const embedding = new Map<string, WeightEntry>()
  return specs.map((spec) => planPart(spec, embedding))
}

/** Names of the initialisers that hold a matrix. */
export function matrixNames(matrix: Matrix): { weight: string; codes: string; scales: string } {
  return { weight: `${matrix.name}.weight`, codes: `${matrix.name}.codes`, scales: `${matrix.name}.scales` }
}

/** @param embedding where the embedding's bytes lie, by the name's ending; filled by the part that has it */
function planPart(spec: PartSpec, embedding: Map<string, WeightEntry>): PartPlan {
  const parameters = partParameters(spec)
  const file = `${spec.part}.weights`
  const weights: WeightEntry[] = []
  let bytes = 0
  const place = (entry: Unplaced): WeightEntry => {
    const offset = Math.ceil(bytes / alignment) * alignment
    bytes = offset + entry.bytes
    const placed = { ...entry, file, offset }
    weights.push(placed)
    return placed
  }
  for (const entry of rotaryEntries(spec)) place(entry)
  for (const parameter of listParameters(parameters)) {
    const isTied = parameter === parameters.head && spec.model.tiedEmbeddings
    for (const entry of entriesOf(parameter, parameter === parameters.embedding, spec.format.name)) {
      const role = entry.name.slice(parameter.name.length)
      const shared = isTied ? embedding.get(role) : undefined
      if (shared) weights.push({ ...entry, file: shared.file, offset: shared.offset })
      else if (isTied) throw new Error(`the part with the embedding must be planned before ${spec.part}`)
      else {
        const placed = place(entry)
        if (parameter === parameters.embedding) embedding.set(role, placed)
      }
    }
  }
  return { spec, parameters, file, bytes, weights }
}

function rotaryEntries(spec: PartSpec): Unplaced[] {
  const { blocks, headDim } = attentionOf(spec)
  if (blocks === 0) return []
  const dims = [spec.model.dims.contextLimit, headDim / 2]
  return Object.values(rotaryNames).map((name) => unplaced(name, 'float32', dims))
}

function entriesOf(parameter: Matrix | Vector, isEmbedding: boolean, format: Format): Unplaced[] {
  if (!('columns' in parameter)) return [unplaced(parameter.name, 'float32', [parameter.length])]
  const { rows, columns } = parameter
  const names = matrixNames(parameter)
  if (format !== 'int4') return [unplaced(names.weight, format === 'fp16' ? 'float16' : 'float32', [rows, columns])]
  const blocks = columns / int4BlockSize
  // The same bytes either way: GatherBlockQuantized wants whole rows, MatMulNBits wants blocks.
  const codes = isEmbedding ? [rows, columns / 2] : [rows, blocks, int4BlockSize / 2]
  return [unplaced(names.codes, 'uint8', codes), unplaced(names.scales, 'float32', [rows, blocks])]
}

function unplaced(name: string, type: WeightEntry['type'], dims: number[]): Unplaced {
  const size = { float32: 4, float16: 2, uint8: 1 }[type]
  return { name, type, dims, bytes: dims.reduce((product, dim) => product * dim, size) }
}
