import { z } from 'zod'
import { StateCoding } from '../../wire/protocol/state-coding.ts'

/** Slot counts for which graphs of packed steps are written: the maximum number of sequences in one run. */
export const slotCounts = [1, 2, 4, 8, 16] as const
export type SlotCount = (typeof slotCounts)[number]

/** A graph's key in a part's manifest. @param branching rows may follow any earlier row, not only the one before */
export const graphKey = (slots: SlotCount, branching: boolean): string => (branching ? `${slots}-tree` : `${slots}`)
const graphKeys: ReadonlySet<string> = new Set(slotCounts.flatMap((slots) => [graphKey(slots, false), graphKey(slots, true)]))

/** Parts that guess the LLM's next tokens; a bundle has any of them or none. */
export const drafterParts = ['adapter', 'adapter-paper', 'medusa'] as const
export type DrafterPart = (typeof drafterParts)[number]

/** The LLM's head without its norm: what reads the states of a draft head (see DraftHead). */
export const draftOutput = 'draft-output'

/** Embeds texts: all layers and the final norm, without a head. It is the only part of its bundle. */
export const encoder = 'encoder'

/** How the states of a text's rows become its embedding. */
export const poolings = ['mean', 'last'] as const
export type Pooling = (typeof poolings)[number]

const partNames = ['input', 'middle', 'output', 'whole', encoder, ...drafterParts, draftOutput] as const
export type PartName = (typeof partNames)[number]

/** Parts that only guess: they decide nothing of the LLM's answers. */
export function isDrafter(part: PartName): boolean {
  return part === draftOutput || drafterParts.some((name) => name === part)
}

export const formats = ['fp32', 'fp16', 'int8', 'int4'] as const
export type Format = (typeof formats)[number]

/** Maximum size of manifest.json. A model of 128 layers has less than one million bytes. */
export const maxManifestBytes = 8 * 2 ** 20

/** Files of a bundle. A part has at most 12; a tokenizer has few. */
const maxFiles = 1_024
/** 8 TiB: sizes of up to `maxFiles` files still add up exactly. */
const maxFileBytes = 2 ** 43
const maxNodes = 1_024
const maxMedusaHeads = 64
const maxWeights = 32_768

/** Largest supported model. Memory and time to open a bundle grow with these numbers, and manifests come from elsewhere. */
const maxDims = {
  layers: 1_024,
  hidden: 65_536,
  heads: 1_024,
  headDim: 1_024,
  ffn: 2 ** 19,
  vocab: 2 ** 22,
  contextLimit: 2 ** 24,
} as const

const size = (max: number) => z.int().min(1).max(max)
const count = z.int().min(0).max(maxFileBytes)
/** Checks the length before the items, because each wrong item would be a separate issue in memory. */
const list = <T extends z.ZodType>(item: T, max: number) => z.array(z.unknown()).max(max).pipe(z.array(item))
const label = z.string().max(256)
const path = label.regex(/^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/, 'a relative path inside the bundle')

/** The position of one weight. `fp16` weights are stored as float16 and become float32 when they are loaded. */
export const WeightEntry = z.object({
  name: label,
  /** Type in the file. A graph declares what is computed in: float32 on the CPU, where fp16 is only a format on disk. */
  type: z.enum(['float32', 'float16', 'uint8']),
  dims: list(count, 4),
  file: path,
  offset: count,
  bytes: count,
})
export type WeightEntry = z.infer<typeof WeightEntry>

/** Gated DeltaNet layers of a part; see DeltaShape. */
const Recurrent = z.object({
  layers: size(maxDims.layers),
  keyHeads: size(maxDims.heads),
  valueHeads: size(maxDims.heads),
  keyDim: size(maxDims.headDim),
  valueDim: size(maxDims.headDim),
  taps: z.int().min(2).max(16),
})

export const PartManifest = z.object({
  /** Decoder layers [from, to) of this part, numbered as in the whole model; [0, 1) for an adapter, which has its own layer. */
  layers: z.tuple([count, count]),
  kvHeads: size(maxDims.heads),
  headDim: size(maxDims.headDim),
  /** Of these layers, those with a state in place of KV. Absent: none. */
  recurrent: Recurrent.optional(),
  /**
   * Graph files by `graphKey`: a slot count, with "-tree" where rows may branch (not for `whole`). A part without attention
   * (`output`, `medusa`, `draft-output`) has only "1".
   */
  graphs: z
    .record(z.string(), z.unknown())
    .refine((graphs) => Object.keys(graphs).every((key) => graphKeys.has(key)), 'a graph has an unknown number of slots')
    .pipe(z.record(z.string(), path)),
  weights: list(WeightEntry, maxWeights),
  /** File of the golden vector: a fixed input and the expected output. */
  golden: path,
  /** Positions that a row attends to in the layers that have a window, its own included. Absent: no layer has one. */
  window: size(maxDims.contextLimit).optional(),
  /** Whether all layers have it. Absent: false. */
  windowOnly: z.boolean().optional(),
  /** For an adapter: it also reads `features`, a second row beside each state. Absent: false. */
  features: z.boolean().optional(),
  /** For an adapter: what its graphs for devices need besides. Absent in bundles of earlier versions. */
  adapter: z.object({ heads: size(maxDims.heads), epsilon: z.number().positive() }).optional(),
  /** For an adapter that is a draft head: what its graphs for devices need besides. It reads token ids, too. */
  draftHead: z
    .object({
      heads: size(maxDims.heads),
      ffn: size(maxDims.ffn),
      epsilon: z.number().positive(),
      normEpsilon: z.number().positive(),
    })
    .optional(),
  /** For `encoder`. */
  pooling: z.enum(poolings).optional(),
  heads: size(maxMedusaHeads).optional(),
  /** For `medusa`: paths of ranks, parents before their children. See MedusaHeads in core/model/engine/contract.ts. */
  tree: list(
    list(count, maxMedusaHeads).refine((ranks) => ranks.length > 0, 'a path has no rank'),
    maxNodes,
  )
    .refine((tree) => tree.length > 0, 'a tree has no path')
    .optional(),
})
export type PartManifest = z.infer<typeof PartManifest>

export const Dims = z.object({
  layers: size(maxDims.layers),
  hidden: size(maxDims.hidden),
  heads: size(maxDims.heads),
  kvHeads: size(maxDims.heads),
  headDim: size(maxDims.headDim),
  ffn: size(maxDims.ffn),
  vocab: size(maxDims.vocab),
  /** Maximum number of positions; the rotary tables have this many rows. */
  contextLimit: size(maxDims.contextLimit),
})
export type Dims = z.infer<typeof Dims>

/**
 * The schema that this version writes. It reads 1 too, whose model id covers less: see model-id.ts. Up to 2, rows depend on
 * how many of them a step has: attention runs without the padding of core/model/engine/part-packing.ts.
 */
export const manifestSchema = 3

const StoredFormat = z.object({
  name: z.enum(formats),
  blockSize: z.int().optional(),
  accuracyLevel: z.int().min(0).max(4).optional(),
  /** Blocks have zero points. Absent: false. */
  zeroPoints: z.boolean().optional(),
})

export const Manifest = z.object({
  schema: z.literal([1, 2, manifestSchema]),
  card: z.object({
    name: label,
    family: label,
    parameters: z.int().min(0),
    createdAt: z.iso.datetime(),
    createdBy: label,
  }),
  dims: Dims,
  /** Layers of `input`; null for one `whole` part. */
  split: z.int().min(1).nullable(),
  format: StoredFormat,
  /** Of the parts that devices compute, where it is another one. */
  deviceFormat: StoredFormat.optional(),
  /** Of embedding and head, in parts whose format is int4. Absent: as their part. */
  vocabularyFormat: StoredFormat.optional(),
  tokens: z.object({ bos: z.int().optional(), eos: list(z.int(), 256), pad: z.int().optional() }),
  /**
   * sha256 over what decides the LLM's answers: dims, split, format, special tokens, the parts with their layers, graphs and
   * weights, tokenizer and chat template; not the drafters. Agent and bridge compare it when a session opens.
   */
  modelId: z.string().regex(/^[0-9a-f]{64}$/),
  parts: z.partialRecord(z.enum(partNames), PartManifest),
  /** How rows between devices and bridge are coded. Absent: they travel as fp16. */
  coding: StateCoding.optional(),
  /** All files except the manifest. */
  files: list(z.object({ path, bytes: count, sha256: z.string().regex(/^[0-9a-f]{64}$/) }), maxFiles),
})
export type Manifest = z.infer<typeof Manifest>

/** Whether drafts may branch: the state of a recurrent layer follows one path. */
export const canBranch = ({ parts }: Pick<Manifest, 'parts'>): boolean =>
  Object.values(parts).every(({ recurrent }) => !recurrent)

/** The format of a part's weights. Of a split model, devices compute all parts but `middle`. */
export const formatOf = ({ format, deviceFormat = format }: Manifest, part: PartName): Manifest['format'] =>
  part === 'middle' || part === 'whole' || part === encoder ? format : deviceFormat

/** The parts of a bundle that `name` drafts with: a draft head has an output of its own. */
export const partsOfDrafter = ({ parts }: Pick<Manifest, 'parts'>, name: DrafterPart): PartName[] =>
  [name, ...(name === 'adapter' ? [draftOutput] : [])].filter((part): part is PartName => part in parts)

export const manifestFile = 'manifest.json'

/** Folder inside the bundle with tokenizer.json, its configuration and the chat template. */
export const tokenizerFolder = 'tokenizer'
