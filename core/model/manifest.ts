import { z } from 'zod'

/** Slot counts for which graphs of packed steps are written: the maximum number of sequences in one run. */
export const slotCounts = [1, 2, 4, 8, 16] as const
export type SlotCount = (typeof slotCounts)[number]

/** A graph's key in a part's manifest. @param branching rows may follow any earlier row, not only the one before */
export const graphKey = (slots: SlotCount, branching: boolean): string => (branching ? `${slots}-tree` : `${slots}`)

/** Parts that guess the LLM's next tokens; a bundle has any of them or none. */
export const drafterParts = ['adapter', 'adapter-paper', 'medusa'] as const
export type DrafterPart = (typeof drafterParts)[number]

const partNames = ['input', 'middle', 'output', 'whole', ...drafterParts] as const
export type PartName = (typeof partNames)[number]

export function isDrafter(part: PartName): part is DrafterPart {
  return drafterParts.some((name) => name === part)
}

export const formats = ['fp32', 'fp16', 'int4'] as const
export type Format = (typeof formats)[number]

const count = z.int().min(0)
const path = z
  .string()
  .regex(/^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/, 'a relative path inside the bundle')

/** The position of one weight. `fp16` weights are stored as float16 and become float32 when they are loaded. */
export const WeightEntry = z.object({
  name: z.string(),
  /** Type in the file. The graph declares float32 for float16: fp16 is only a format on disk, the arithmetic is fp32. */
  type: z.enum(['float32', 'float16', 'uint8']),
  dims: z.array(count),
  file: path,
  offset: count,
  bytes: count,
})
export type WeightEntry = z.infer<typeof WeightEntry>

export const PartManifest = z.object({
  /** Decoder layers [from, to) of this part, numbered as in the whole model; [0, 1) for an adapter, which has its own layer. */
  layers: z.tuple([count, count]),
  kvHeads: z.int().min(1),
  headDim: z.int().min(1),
  /**
   * Graph files by `graphKey`: a slot count, with "-tree" where rows may branch (not for `whole`). A part without attention
   * (`output`, `medusa`) has only "1".
   */
  graphs: z.record(z.string().regex(/^\d+(-tree)?$/), path),
  weights: z.array(WeightEntry),
  /** File of the golden vector: a fixed input and the expected output. */
  golden: path,
  /** For an adapter: it also reads `features`, a second row beside each state. Absent: false. */
  features: z.boolean().optional(),
  /** For `medusa`: number of heads. */
  heads: z.int().min(1).optional(),
  /** For `medusa`: paths of ranks, parents before their children. See MedusaHeads in core/engine/contract.ts. */
  tree: z.array(z.array(count).min(1)).min(1).optional(),
})
export type PartManifest = z.infer<typeof PartManifest>

export const Dims = z.object({
  layers: z.int().min(1),
  hidden: z.int().min(1),
  heads: z.int().min(1),
  kvHeads: z.int().min(1),
  headDim: z.int().min(1),
  ffn: z.int().min(1),
  vocab: z.int().min(1),
  /** Maximum number of positions; the rotary tables have this many rows. */
  contextLimit: z.int().min(1),
})
export type Dims = z.infer<typeof Dims>

export const Manifest = z.object({
  schema: z.literal(1),
  card: z.object({
    name: z.string(),
    family: z.string(),
    parameters: count,
    createdAt: z.iso.datetime(),
    createdBy: z.string(),
  }),
  dims: Dims,
  /** Layers of `input`; null for one `whole` part. */
  split: z.int().min(1).nullable(),
  format: z.object({ name: z.enum(formats), blockSize: z.int().optional(), accuracyLevel: z.int().min(0).max(4).optional() }),
  tokens: z.object({ bos: z.int().optional(), eos: z.array(z.int()), pad: z.int().optional() }),
  /**
   * sha256 over what decides the LLM's answers (dims, split, format, hashes of graphs and weights of input, middle,
   * output or whole; not the drafters). Agent and bridge compare it when a session opens.
   */
  modelId: z.string().regex(/^[0-9a-f]{64}$/),
  parts: z.partialRecord(z.enum(partNames), PartManifest),
  /** All files except the manifest. */
  files: z.array(z.object({ path, bytes: count, sha256: z.string().regex(/^[0-9a-f]{64}$/) })),
})
export type Manifest = z.infer<typeof Manifest>

export const manifestFile = 'manifest.json'

/** Folder inside the bundle with tokenizer.json, its configuration and the chat template. */
export const tokenizerFolder = 'tokenizer'
