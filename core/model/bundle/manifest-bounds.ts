import { ropeNames } from './architecture.ts'
import {
  type Dims,
  draftOutput,
  encoder,
  graphKey,
  isDrafter,
  type Manifest,
  type PartManifest,
  type PartName,
  slotCounts,
  type WeightEntry,
} from './manifest.ts'
import { rotaryNames } from './parameters.ts'
import { rotaryPositions } from './rope.ts'

/** Width of all heads: the KV of one position has at most twice this many values per layer. */
const maxHeadsWidth = 65_536
/** Values of the state of a recurrent layer: published models have up to 2^20. */
const maxStateValues = 2 ** 23
/** Weights of a layer, and of the rest of a part; int4 with zero points has at most 22 and 13. */
const maxLayerWeights = 32
const maxOtherWeights = 16
/** A graph holds no weights: our writer needs 2.5 KB per layer, and 0.6 KB more for each slot. */
const maxGraphBytes = { base: 2 ** 16, perLayer: 2 ** 14, perSlot: 2 ** 12 }
/** Golden rows are four, with features, fp16 and fp32 in base64, and up to 256 columns of each Medusa head. */
const maxGoldenBytes = { base: 2 ** 22, perColumn: 256 }
/** Tokenizer, chat template and configuration together. */
const maxTextBytes = 2 ** 30
/** What a weights file may have after its last weight. */
const maxPaddingBytes = 4_096

type FileSizes = ReadonlyMap<string, number>

const bytesPer: Record<WeightEntry['type'], number> = { float32: 4, float16: 2, uint8: 1 }

/**
 * Finds a count of a manifest that does not follow from its dimensions: a hostile manifest must not make its reader reserve
 * memory, loop or download beyond what a model of these dimensions needs.
 * @returns what is wrong, or undefined
 */
export function findExcess(manifest: Manifest): string | undefined {
  const sizes = new Map(manifest.files.map(({ path, bytes }) => [path, bytes]))
  if (sizes.size < manifest.files.length) return 'a file is listed twice'
  const wrong = findDimsError(manifest)
  if (wrong) return wrong
  for (const [name, part] of Object.entries(manifest.parts)) {
    const error = findPartError(name as PartName, part, manifest, sizes)
    if (error) return `part ${name}: ${error}`
  }
  return findFileError(manifest)
}

function findDimsError({ dims, split, coding }: Manifest): string | undefined {
  const { layers, hidden, heads, kvHeads, headDim } = dims
  if (heads % kvHeads !== 0) return `${heads} heads cannot share ${kvHeads} key-value heads`
  if (heads * headDim > maxHeadsWidth) return `${heads} heads of ${headDim} are wider than ${maxHeadsWidth}`
  if (split !== null && split >= layers) return `a split after layer ${split} of ${layers} leaves no middle`
  if (coding && [coding.shallow, coding.deep].some(({ channels }) => channels.length !== hidden))
    return `its tables are not for rows of ${hidden} values`
  return undefined
}

function findPartError(name: PartName, part: PartManifest, manifest: Manifest, sizes: FileSizes): string | undefined {
  const { dims, split } = manifest
  const { layers, kvHeads, headDim } = part
  const expected = layersOf(name, split, dims.layers)
  if (!expected) return split === null ? 'the model is not split' : 'the model is split'
  if (layers.join() !== expected.join()) return `it has the layers ${layers.join(' to ')}, not ${expected.join(' to ')}`
  if (isDrafter(name) ? kvHeads * headDim > maxHeadsWidth : kvHeads !== dims.kvHeads || headDim !== dims.headDim)
    return `${kvHeads} key-value heads of ${headDim} do not belong to this model`
  const { recurrent } = part
  if (
    recurrent &&
    (recurrent.layers > layers[1] - layers[0] || recurrent.valueHeads * recurrent.keyDim * recurrent.valueDim > maxStateValues)
  )
    return `the recurrent layers (${recurrent.layers}, ${recurrent.valueHeads} heads of ${recurrent.keyDim} x ${recurrent.valueDim}) are too many or too large`
  return findSizeError(part, dims, sizes) ?? findWeightsError(name, part, manifest, sizes)
}

/** [from, to) as "brim model build" divides the layers; undefined if the model has no such part. */
function layersOf(name: PartName, split: number | null, layers: number): readonly [number, number] | undefined {
  if (name === 'whole' || name === encoder) return split === null ? [0, layers] : undefined
  if (split === null) return undefined
  if (name === 'input') return [0, split]
  if (name === 'middle') return [split, layers]
  return name === 'output' || name === 'medusa' || name === draftOutput ? [layers, layers] : [0, 1]
}

/** Rows of the largest projection of Gated DeltaNet, at most. */
const deltaWidth = ({ keyHeads, valueHeads, keyDim, valueDim }: NonNullable<PartManifest['recurrent']>) =>
  2 * keyHeads * keyDim + 2 * valueHeads * (valueDim + 1)

/** Checks graphs and golden vector, which are read into memory. */
function findSizeError({ layers, graphs, golden }: PartManifest, { hidden }: Dims, sizes: FileSizes): string | undefined {
  const depth = layers[1] - layers[0]
  for (const slots of slotCounts)
    for (const key of [graphKey(slots, false), graphKey(slots, true)]) {
      const bytes = sizes.get(graphs[key] ?? '') ?? 0
      const { base, perLayer, perSlot } = maxGraphBytes
      if (bytes > base + depth * (perLayer + slots * perSlot))
        return `the graph "${key}" of ${bytes} bytes is too large for ${depth} layers`
    }
  const bytes = sizes.get(golden) ?? 0
  if (bytes <= maxGoldenBytes.base + maxGoldenBytes.perColumn * hidden) return undefined
  return `the golden vector of ${bytes} bytes is too large for a width of ${hidden}`
}

function findWeightsError(name: PartName, part: PartManifest, manifest: Manifest, sizes: FileSizes): string | undefined {
  const { layers, weights } = part
  const depth = layers[1] - layers[0]
  if (weights.length > maxOtherWeights + maxLayerWeights * depth)
    return `${weights.length} weights are too many for ${depth} layers`
  if (new Set(weights.map((weight) => weight.name)).size < weights.length) return 'two weights have the same name'
  const usedBytes = weights.reduce((sum, { bytes }) => sum + bytes, 0)
  const storedBytes = [...new Set(weights.map(({ file }) => file))].reduce((sum, file) => sum + (sizes.get(file) ?? 0), 0)
  // A tied head of int4 has the embedding's bytes in another shape.
  if (usedBytes > 2 * storedBytes) return `the weights have ${usedBytes} bytes in files of ${storedBytes}`
  const { hidden, heads, kvHeads, headDim, ffn, vocab, contextLimit } = manifest.dims
  const positions = rotaryPositions(contextLimit)
  const attentionWidth = isDrafter(name) ? 3 * maxHeadsWidth : 2 * (heads + kvHeads) * headDim
  const recurrentWidth = part.recurrent ? 4 * deltaWidth(part.recurrent) : 0
  const longest = Math.max(vocab, positions, ffn, hidden * (part.heads ?? 1), attentionWidth, recurrentWidth)
  for (const weight of weights) {
    const error = findWeightError(weight, longest) ?? findTableError(weight, part, manifest.schema > 2 ? positions : contextLimit)
    if (error) return `the weight ${weight.name} [${weight.dims.join(', ')}] ${error}`
  }
  return undefined
}

function findWeightError({ type, dims, bytes }: WeightEntry, longest: number): string | undefined {
  if (dims.some((axis) => axis > longest)) return "is larger than the model's dimensions"
  if (bytes !== dims.reduce((product, axis) => product * axis, bytesPer[type])) return `does not have ${bytes} bytes`
  return undefined
}

/** A rotary table that is too short would be read beyond its end. */
function findTableError({ name, dims }: WeightEntry, { headDim }: PartManifest, positions: number): string | undefined {
  if (!ropeNames.some((rope) => Object.values(rotaryNames(rope)).includes(name))) return undefined
  const [rows = 0, columns = 0] = dims
  if (dims.length === 2 && rows >= positions && 2 * columns <= headDim) return undefined
  return `does not cover ${positions} positions with heads of ${headDim}`
}

/** Files must end with their last weight; those that belong to no part are the tokenizer's. */
function findFileError({ parts, files }: Manifest): string | undefined {
  const ends = new Map<string, number>()
  const others = new Set<string>()
  for (const { weights, graphs, golden } of Object.values(parts)) {
    for (const { file, offset, bytes } of weights) ends.set(file, Math.max(ends.get(file) ?? 0, offset + bytes))
    for (const path of [golden, ...Object.values(graphs)]) others.add(path)
  }
  const loose = files.find(({ path, bytes }) => ends.has(path) && bytes > (ends.get(path) ?? 0) + maxPaddingBytes)
  if (loose) return `${loose.path} has ${loose.bytes} bytes, but its weights end at ${ends.get(loose.path)}`
  const textBytes = files.filter(({ path }) => !ends.has(path) && !others.has(path)).reduce((sum, { bytes }) => sum + bytes, 0)
  return textBytes > maxTextBytes ? `the files of its tokenizer have ${textBytes} bytes` : undefined
}
