import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { BrimError } from '../../../core/base/errors.ts'
import { projectRoot } from '../../../core/base/version.ts'
import { adapterDrafter } from '../../../core/draft/adapter-drafter.ts'
import { adapterLookupDrafter } from '../../../core/draft/adapter-lookup-drafter.ts'
import { noDrafter } from '../../../core/draft/drafter.ts'
import { lookupDrafter } from '../../../core/draft/lookup-drafter.ts'
import { medusaDrafter } from '../../../core/draft/medusa-drafter.ts'
import type { Chain, StepItem } from '../../../core/engine/contract.ts'
import { answerBudget } from '../../../core/engine/generate.ts'
import { openBundle } from '../../../core/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/engine/open-model.ts'
import { greedy } from '../../../core/engine/sampler.ts'
import { shareHead } from '../../../core/engine/shared-head.ts'
import { readManifest } from '../../../core/model/bundle.ts'
import { drafterParts, type Manifest, tokenizerFolder } from '../../../core/model/manifest.ts'
import { defaultDraftThreshold } from '../../../core/policy/hat/draft-stop.ts'
import { loadChatTemplate } from '../../../core/text/chat-template.ts'
import { loadTokenizer } from '../../../core/text/tokenizer.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { type Bench, type BenchContext, type BenchResult, benchCommand } from '../frame.ts'
import { type BenchPrompt, readPrompts } from '../prompts.ts'
import { type AcceptanceRun, acceptLength, type DrafterKind, drafters, isLooping, runOf } from './figures.ts'
import { type Answered, answerGreedily, type ReplayLimits, type ReplayModel, type Round, replay, replayTrees } from './replay.ts'
import { acceptanceTables, reportAcceptance } from './report.ts'

const heldOut = 'test/fixtures/heldout-prompts.jsonl'
/** With --quick: so many of the prompts, evenly taken, and no longer answers. */
const quick = { prompts: 18, maxTokens: 64 }

const options = {
  bundle: z.string().meta({ description: 'folder of a split bundle', fallback: 'the demonstration model' }).optional(),
  prompts: z
    .string()
    .meta({
      description: 'JSON lines with "prompt" or "messages", and optionally "task" and "id"',
      fallback: 'held-out prompts of the demonstration',
    })
    .optional(),
  maxTokens: z.int().min(1).default(128).describe('max tokens of an answer'),
  threshold: z.number().min(0).max(1).default(defaultDraftThreshold).describe('η: a draft ends below this probability'),
  draftLimit: z.int().min(1).default(8).describe('max tokens per draft; a Medusa tree has its own size'),
}

export const acceptanceBench: Bench<typeof options> = {
  name: 'acceptance',
  examples: [['brim bench acceptance --bundle qwen --prompts mine.jsonl', 'on your own bundle and prompts']],
  options,
  reach: { acceptLengthAdapter: { atLeast: 2.2 } },
  async run(context, { bundle, prompts, maxTokens, threshold, draftLimit }) {
    const folder = bundle ?? (await ensureDemoBundle())
    const file = prompts ?? relative(process.cwd(), fileURLToPath(new URL(heldOut, projectRoot)))
    const longest = context.quick ? Math.min(maxTokens, quick.maxTokens) : maxTokens
    const result = await benchAcceptance({ folder, file, maxTokens: longest, threshold, draftLimit }, context)
    return { ...result, conditions: { ...result.conditions, prompts: prompts ?? heldOut } }
  },
  print: acceptanceTables,
  report: reportAcceptance,
}

/** `brim bench acceptance` */
export const command = benchCommand(acceptanceBench)

interface Measured extends ReplayLimits {
  readonly folder: string
  readonly file: string
  readonly maxTokens: number
}

async function benchAcceptance({ folder, file, maxTokens, ...limits }: Measured, context: BenchContext): Promise<BenchResult> {
  // Whatever is wrong with folder or prompts is said before a model is loaded.
  const manifest = await readManifest(folder)
  if (manifest.split === null)
    throw new BrimError('BUNDLE_INVALID', `${folder} holds a whole model: nothing is drafted or verified there`, {
      hint: 'build the bundle with --split',
    })
  const all = await readPromptsFor(manifest, folder, file)
  const prompts = context.quick ? evenly(all, quick.prompts) : all
  const owned = drafterParts.filter((name) => manifest.parts[name])
  const threads = Math.min(4, availableParallelism())
  const model = await openBundle(folder, {
    library: context.io.env.ORT_LIB,
    parts: ['input', 'middle', 'output', ...owned],
    threads,
  })
  const runs: AcceptanceRun[] = []
  try {
    const parts = partsOf(model, context.io.signal)
    const replays = replaysOf(model, parts, limits)
    for (const [at, { id, task, ids }] of prompts.entries()) {
      context.progress(`prompt ${at + 1} of ${prompts.length}: ${id}, ${ids.length} tokens`)
      const answered = await answerGreedily(parts, ids, maxTokens)
      const { answer } = answered
      const of = { id, task, promptTokens: ids.length, answerTokens: answer.length, looping: isLooping(answer) }
      for (const [drafter, rounds] of replays) runs.push(runOf({ drafter, ...of }, await rounds(answered)))
    }
  } finally {
    await model.release()
  }
  const { card, modelId, format } = manifest
  const answers = runs.filter(({ drafter }) => drafter === 'none')
  const conditions = {
    model: card.name,
    modelId,
    format: format.name,
    features: manifest.parts.adapter?.features ?? false,
    medusaTree: manifest.parts.medusa?.tree ?? null,
    answers: answers.length,
    loopingAnswers: answers.filter(({ looping }) => looping).length,
    maxTokens,
    ...limits,
    temperature: 0,
    threads,
  }
  return { conditions, summary: summarise(runs), runs }
}

async function readPromptsFor({ dims }: Manifest, folder: string, file: string): Promise<BenchPrompt[]> {
  const texts = join(folder, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(texts), loadChatTemplate(texts)])
  const check = (ids: readonly number[]) => {
    answerBudget(ids, undefined, dims)
  }
  return readPrompts(file, { tokenizer, chatTemplate, check })
}

/** So many of them, from the first on, at equal distances. */
function evenly<T>(all: readonly T[], count: number): T[] {
  const step = Math.max(1, all.length / count)
  return Array.from({ length: Math.min(count, all.length) }, (_, at) => all[Math.floor(at * step)]!)
}

/** What answers and replays step, until the signal says that nobody waits for it. */
function partsOf(model: LoadedModel, signal: AbortSignal): ReplayModel {
  const stoppable = <Items, Result>(step: (items: Items) => Promise<Result>) => {
    return async (items: Items) => {
      signal.throwIfAborted()
      return step(items)
    }
  }
  const { manifest } = model
  const [input, chain] = [model.part('input'), model.chain({ cuts: 'half' })]
  return {
    manifest,
    middle: model.part('middle'),
    input: {
      name: input.name,
      manifest: input.manifest,
      createSequence: () => input.createSequence(),
      step: stoppable((items: readonly StepItem[]) => input.step(items)),
    },
    chain: {
      manifest,
      createSequence: () => chain.createSequence(),
      step: stoppable((items: Parameters<Chain['step']>[0]) => chain.step(items)),
    },
  }
}

/** Every drafter that the bundle has the parts for. */
function replaysOf(
  model: LoadedModel,
  held: ReplayModel,
  limits: ReplayLimits,
): [DrafterKind, (answered: Answered) => Promise<Round[]>][] {
  const { parts, dims } = model.manifest
  const head = shareHead(model.head(), dims.vocab)
  const kinds: Record<DrafterKind, boolean> = {
    'adapter+lookup': parts.adapter !== undefined,
    adapter: parts.adapter !== undefined,
    'adapter-paper': parts['adapter-paper'] !== undefined,
    lookup: true,
    medusa: parts.medusa !== undefined,
    none: true,
  }
  const create = {
    'adapter+lookup': () => adapterLookupDrafter(adapterDrafter(model.part('adapter'), head, greedy), limits.threshold),
    adapter: () => adapterDrafter(model.part('adapter'), head, greedy),
    'adapter-paper': () => adapterDrafter(model.part('adapter-paper'), head, greedy),
    lookup: lookupDrafter,
    none: noDrafter,
  }
  return drafters
    .filter((kind) => kinds[kind])
    .map((kind) => [
      kind,
      kind === 'medusa'
        ? (answered) => replayTrees(medusaDrafter(model.medusa(), dims.vocab), held, answered)
        : (answered) => replay(create[kind](), held, answered, limits),
    ])
}

function summarise(runs: readonly AcceptanceRun[]): BenchResult['summary'] {
  const of = (drafter: DrafterKind, among = runs) => acceptLength(among.filter((run) => run.drafter === drafter))
  const steady = runs.filter(({ looping }) => !looping)
  return {
    acceptLengthAdapter: of('adapter'),
    acceptLengthAdapterPaper: of('adapter-paper'),
    acceptLengthMedusa: of('medusa'),
    acceptLengthLookup: of('lookup'),
    acceptLengthAdapterLookup: of('adapter+lookup'),
    acceptLengthAdapterWithoutLoops: of('adapter', steady),
    loopingAnswers: runs.filter(({ drafter, looping }) => drafter === 'none' && looping).length,
  }
}
