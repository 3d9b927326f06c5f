import { readFile, statfs } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { megabytes } from '../../kit/base/megabytes.ts'
import type { StateCoding } from '../../wire/protocol/state-coding.ts'
import type { States } from '../../wire/protocol/states.ts'
import { loadChatTemplate } from '../text/chat-template.ts'
import { tokenizerFile } from '../text/tokenizer.ts'
import { attentionOf, defaultInt4BlockSize, type Int4BlockSize, recurrentOf } from './architecture.ts'
import { type BundleFormats, checkFormat, checkSplit, partSpecs, splitWarning } from './build-options.ts'
import { writePart } from './build-part.ts'
import { BundleDraft } from './bundle-draft.ts'
import { type Checkpoint, checkTensors, isRedundant, openCheckpoint, textFiles } from './checkpoint.ts'
import { checkpointFormat } from './checkpoint-format.ts'
import { type Conversion, Conversions } from './conversions.ts'
import { describeBundle, goldenFile, graphFile } from './describe-bundle.ts'
import { isRedundantInHead } from './draft-head-files.ts'
import { type DrafterFiles, openDrafters } from './drafters.ts'
import { serializeGolden } from './golden.ts'
import {
  type DrafterPart,
  encoder,
  type Format,
  isDrafter,
  type Manifest,
  manifestFile,
  type PartName,
  type Pooling,
  slotCounts,
  tokenizerFolder,
} from './manifest.ts'
import { headTensor } from './parameters.ts'
import { buildPartGraph } from './part-graph.ts'
import { readPooling } from './pooling.ts'
import { preferOwn } from './tensor-files.ts'
import { ownParameters, type PartPlan, planParts } from './weight-plan.ts'
import { WeightWriter } from './weight-writer.ts'

export interface BuildOptions {
  /** A Hugging Face directory, a GGUF file, or a folder with one. */
  readonly checkpoint: string
  /** The bundle's folder; it must not exist unless `replace` is set. */
  readonly out: string
  /** Layers of the input part; absent: one `whole` part. */
  readonly split?: number | undefined
  /** A bundle that embeds texts, pooled so or as the checkpoint says; without split and drafters. Default: one that answers. */
  readonly embedding?: Pooling | 'auto' | undefined
  /** Default: fp16; of a quantised checkpoint int4 or int8, whichever is nearer. */
  readonly format?: Format | undefined
  /** Of the parts that devices compute. Default: as `format`. */
  readonly deviceFormat?: Format | undefined
  /** For int4 and int8. Default 4. */
  readonly accuracyLevel?: 1 | 4
  /** For int4 and int8: weights that share one scale. Default: as in a quantised checkpoint, else 32. */
  readonly blockSize?: Int4BlockSize | undefined
  /** Drafters, each from the checkpoint's folder of that name. Default: `adapter`, if the checkpoint has one for this split. */
  readonly drafters?: readonly DrafterPart[] | undefined
  /** Folder of the drafter `adapter`. Default: in the checkpoint's folder. */
  readonly adapter?: string | undefined
  /** Folder or file of a draft head in EAGLE's layout, which becomes the drafter `adapter`. Default: none. */
  readonly draftHead?: string | undefined
  /** Name on the model card. Default: the name of the checkpoint's folder. */
  readonly name?: string | undefined
  readonly replace?: boolean
  /** Makes the tables by which a split model's rows are coded. Default: none, and rows travel as fp16. */
  readonly codeStates?: ((folder: string) => Promise<StateCoding | undefined>) | undefined
  readonly signal?: AbortSignal
  readonly onEvent?: (event: BuildEvent) => void
}

export type BuildEvent =
  | { readonly kind: 'progress'; readonly part: PartName; readonly doneBytes: number; readonly totalBytes: number }
  | { readonly kind: 'warning'; readonly message: string }
  /** At the end, for each type of quantised weights in the checkpoint. */
  | ({ readonly kind: 'converted' } & Conversion)

export type FormatOptions = Partial<Pick<BuildOptions, 'format' | 'deviceFormat' | 'accuracyLevel' | 'blockSize' | 'split'>>

interface BuiltBundle {
  readonly dir: string
  readonly manifest: Manifest
}

/**
 * Builds a bundle from a checkpoint: graphs, weights, golden vectors, tokenizer and manifest. Memory is bounded for
 * checkpoints of any size. The bundle appears atomically.
 * @throws BrimError for an invalid checkpoint, invalid options or an unwritable target; the signal's reason when aborted
 */
export async function buildBundle(options: BuildOptions): Promise<BuiltBundle> {
  await using checkpoint = await openCheckpoint(options.checkpoint)
  const formats = formatsOf(options, checkpoint)
  await using drafters = await findDrafters(options, checkpoint)
  const pooling = options.embedding === 'auto' ? await readPooling(checkpoint.folder) : options.embedding
  const plans = planBundle({ ...options, pooling }, formats, checkpoint, drafters.files)
  const draft = await BundleDraft.begin(options.out, options.replace ?? false)
  try {
    await checkSpace(draft, options.out, plans)
    await writeParts(draft, plans, checkpoint, drafters.files, options)
    await copyTextFiles(draft, checkpoint, options)
    const { name, split } = options
    const manifest = describeBundle({ name, split, checkpoint, formats, plans, files: [...draft.records] })
    const writeManifest = (complete: Manifest) => draft.write(manifestFile, `${JSON.stringify(complete, null, 1)}\n`)
    await writeManifest(manifest)
    const coding = split === undefined ? undefined : await codingOf(draft.folder, options)
    if (coding) await writeManifest({ ...manifest, coding })
    options.signal?.throwIfAborted()
    await draft.commit()
    return { dir: resolve(options.out), manifest: { ...manifest, ...(coding && { coding }) } }
  } catch (error) {
    await draft.discard()
    throw error
  }
}

/** A model that cannot be measured here answers all the same. */
async function codingOf(folder: string, { codeStates, onEvent }: BuildOptions): Promise<StateCoding | undefined> {
  try {
    return await codeStates?.(folder)
  } catch (error) {
    if (!(error instanceof BrimError)) throw error
    const message = `the bundle has no tables for coded states, which will travel as fp16: ${error.message}`
    onEvent?.({ kind: 'warning', message })
    return undefined
  }
}

/** @throws BrimError USAGE where devices compute nothing */
export function formatsOf(options: FormatOptions, { tensors }: Pick<Checkpoint, 'tensors'>): BundleFormats {
  const own = checkpointFormat(tensors)
  const { format: name = own?.name ?? 'fp16', deviceFormat = name, accuracyLevel = 4, split } = options
  const { blockSize = own?.blockSize ?? defaultInt4BlockSize } = options
  if (split === undefined && deviceFormat !== name)
    throw new BrimError('USAGE', `--device-format ${deviceFormat} needs a split model`, {
      hint: 'add --split, or use --format for the whole model',
    })
  const common = { accuracyLevel, blockSize, zeroPoints: own?.zeroPoints ?? false }
  const vocabulary = { name: 'int8', accuracyLevel, blockSize: defaultInt4BlockSize, zeroPoints: false } as const
  // Embedding and head lose most in int4. At level 1 the library expands the whole int8 head in each step.
  const isFiner = own ? own.needsFinerVocabulary : accuracyLevel === 4
  return {
    format: { name, ...common },
    deviceFormat: { name: deviceFormat, ...common },
    vocabularyFormat: isFiner && [name, deviceFormat].includes('int4') ? vocabulary : undefined,
  }
}

/** Opens the drafters of the bundle; the caller disposes of them. */
async function findDrafters({ split, embedding, drafters, adapter, draftHead, onEvent }: BuildOptions, checkpoint: Checkpoint) {
  const given = split !== undefined ? 'a split' : drafters || adapter || draftHead ? 'a drafter' : undefined
  if (embedding && given)
    throw new BrimError('USAGE', `a model for embeddings has no use for ${given}`, { hint: 'omit it, or build another bundle' })
  const warn = (message: string) => onEvent?.({ kind: 'warning', message })
  const files = embedding ? [] : await openDrafters(checkpoint, { split, drafters, adapter, draftHead, warn })
  const close = () => Promise.all(files.map((each) => each[Symbol.asyncDispose]()))
  return { files, [Symbol.asyncDispose]: async () => void (await close()) }
}

/** Plans the parts and makes every check that is possible before the first write. */
function planBundle(
  options: BuildOptions & { readonly pooling: Pooling | undefined },
  formats: BundleFormats,
  checkpoint: Checkpoint,
  drafters: readonly DrafterFiles[],
): PartPlan[] {
  const { architecture, tensors } = checkpoint
  const { layers } = architecture.dims
  if (options.split !== undefined) {
    checkSplit(options.split, layers)
    const message = splitWarning(options.split, layers)
    if (message) options.onEvent?.({ kind: 'warning', message })
  }
  const specs = drafters.map(({ spec }) => spec)
  for (const format of [formats.format, formats.deviceFormat]) checkFormat(format, architecture, specs)
  const plans = planParts(partSpecs(architecture, formats, options, specs))
  const ofModel = plans.filter(({ spec }) => !isDrafter(spec.part))
  const isUnused = (name: string) => isRedundant(name, architecture) || (options.pooling !== undefined && name === headTensor)
  checkTensors(tensors, ofModel.flatMap(ownParameters), isUnused)
  for (const { spec, tensors } of drafters)
    checkTensors(
      tensors,
      plans.filter((plan) => plan.spec.part === spec.part).flatMap(ownParameters),
      'draftHead' in spec ? isRedundantInHead : () => false,
    )
  return plans
}

/** @throws BrimError DISK_FULL if the weights exceed the free space */
async function checkSpace(draft: BundleDraft, out: string, plans: readonly PartPlan[]): Promise<void> {
  const { bavail, bsize } = await statfs(draft.folder)
  const needed = plans.reduce((sum, { bytes }) => sum + bytes, 0)
  if (bavail * bsize >= needed) return
  throw new BrimError('DISK_FULL', `${out} needs ${megabytes(needed)}, its disk has ${megabytes(bavail * bsize)} free`, {
    hint: 'free some space, or choose another --out',
  })
}

async function writeParts(
  draft: BundleDraft,
  plans: readonly PartPlan[],
  checkpoint: Checkpoint,
  drafters: readonly DrafterFiles[],
  { signal, onEvent }: BuildOptions,
): Promise<void> {
  const conversions = new Conversions()
  const written = plans.flatMap(({ weights, file }) => weights.filter((weight) => weight.file === file))
  const totalBytes = written.reduce((sum, { bytes }) => sum + bytes, 0)
  let doneBytes = 0
  let shallow: States | undefined
  let deep: States | undefined
  for (const plan of plans) {
    const { part } = plan.spec
    const onBytes = (bytes: number) => {
      doneBytes += bytes
      onEvent?.({ kind: 'progress', part, doneBytes, totalBytes })
    }
    const own = drafters.find(({ spec }) => spec.part === part)
    const source = own ? preferOwn(own.tensors, checkpoint.tensors) : checkpoint.tensors
    const sink = plan.bytes > 0 ? await draft.file(plan.file) : undefined
    const result = await writePart(
      plan,
      new WeightWriter(source, sink, plan, { signal, onBytes, onConverted: conversions.add }),
      readsDeep(plan) ? deep : shallow,
    )
    await sink?.close()
    if (part === 'input') shallow = result.states
    if (part === 'middle') deep = result.states
    await draft.write(goldenFile(plan), serializeGolden(result.golden))
    // A part without attention has no sequences, so one graph serves any number of rows.
    const attends = attentionOf(plan.spec).blocks > 0
    // The state of a recurrent layer follows one path.
    const branches = attends && part !== 'whole' && part !== encoder && !recurrentOf(plan.spec)
    for (const slots of attends ? slotCounts : ([1] as const))
      for (const branching of branches ? [false, true] : [false])
        await draft.write(graphFile(plan, slots, branching), buildPartGraph(plan, slots, branching ? 'tree' : 'line'))
  }
  for (const conversion of conversions.summary()) onEvent?.({ kind: 'converted', ...conversion })
}

/** Parts after the middle. */
const readsDeep = ({ spec }: PartPlan): boolean => attentionOf(spec).blocks === 0 || spec.draftHead !== undefined

/** Copies tokenizer, chat template and configuration into the bundle. */
async function copyTextFiles(draft: BundleDraft, { textFolder }: Checkpoint, options: BuildOptions): Promise<void> {
  let hasTokenizer = false
  for (const file of textFiles) {
    const content = await readFile(join(textFolder, file)).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT') return undefined
      throw new BrimError('CHECKPOINT_INVALID', `cannot read ${join(textFolder, file)}`, { cause })
    })
    if (content) await draft.write(`${tokenizerFolder}/${file}`, content)
    hasTokenizer ||= content !== undefined && file === tokenizerFile
  }
  const missing = !hasTokenizer
    ? `${tokenizerFile} (transformers can convert a tokenizer.model): the bundle will accept token ids only`
    : (await loadChatTemplate(textFolder)) === undefined
      ? 'chat template: the bundle will refuse conversations ("brim ask", /v1/chat/completions); models for conversations come with one, in chat_template.jinja or tokenizer_config.json'
      : undefined
  if (missing !== undefined) options.onEvent?.({ kind: 'warning', message: `${options.checkpoint} has no ${missing}` })
}
