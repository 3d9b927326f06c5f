import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { drafterParts, draftOutput, type PartName, partsOfDrafter } from '../../../core/model/bundle/manifest.ts'
import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import { adapterLookupDrafter } from '../../../core/model/draft/adapter-lookup-drafter.ts'
import { type Drafter, noDrafter, type TreeDrafter } from '../../../core/model/draft/drafter.ts'
import { lookupDrafter } from '../../../core/model/draft/lookup-drafter.ts'
import type { Chain, StepItem } from '../../../core/model/engine/contract.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { shareHead } from '../../../core/model/engine/shared-head.ts'
import { defaultDraftThreshold } from '../../../core/policy/hat/draft-gain.ts'
import { medusaDrafter } from '../../baselines/medusa-drafter.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { readDemoModel } from '../demo-model.ts'
import { isLooping } from '../looping.ts'
import { type Answered, answerGreedily, type ReplayLimits, type ReplayModel, type Round, replay } from './replay.ts'
import {
  type AcceptanceRun,
  acceptanceFigures,
  type DrafterKind,
  drafters,
  keptAcceptanceRun,
  runOf,
  showAcceptance,
} from './report.ts'

/** With --quick: at most this many prompts, evenly taken, and answers of at most this many tokens. */
const quickLimits = { prompts: 18, maxTokens: 64 }

const options = {
  bundle: z.string().min(1).optional().meta({ description: 'folder of a split bundle', fallback: 'the demonstration model' }),
  prompts: z.string().min(1).optional().meta({
    description: 'JSON lines with "prompt" or "messages", optionally "task" and "id"',
    fallback: "the demonstration's held-out prompts",
  }),
  maxTokens: z.int().min(1).default(128).describe('maximum length of an answer, in tokens'),
  threshold: z
    .number()
    .min(0)
    .max(1)
    .default(defaultDraftThreshold)
    .describe('a draft ends at a token that the drafter gives less than this probability (η of HAT Eq. 5)'),
  draftLimit: z.int().min(1).default(8).describe('maximum tokens per draft; a Medusa tree has a size of its own'),
}

export const acceptanceBench = tabledBench<AcceptanceRun, typeof options>({
  name: 'acceptance',
  title: 'Drafters',
  contents: 'every round of every answer: the length of its draft and how much of it was accepted',
  figureText: 'Acceptance rate by draft position, and accept length per task',
  isTimeless: true,
  options,
  examples: [['brim bench acceptance --bundle qwen --prompts mine.jsonl', 'on your own bundle and prompts']],
  figures: acceptanceFigures,
  measure,
  show: showAcceptance,
  keptRuns: (runs) => runs.map(keptAcceptanceRun),
})

export const command = benchCommand(acceptanceBench)

/** @throws BrimError BUNDLE_INVALID, or REQUEST_INVALID for prompts, before a model is loaded */
async function measure(context: BenchContext, given: z.output<z.ZodObject<typeof options>>) {
  const { threshold, draftLimit } = given
  const maxTokens = context.quick ? Math.min(given.maxTokens, quickLimits.maxTokens) : given.maxTokens
  const { bundle, manifest, dialogues, conditions: asked } = await readDemoModel({ ...given, mustFit: true })
  if (manifest.split === null)
    throw new BrimError('BUNDLE_INVALID', `${bundle} holds a whole model, which neither drafts nor verifies`, {
      hint: 'build the bundle with --split',
    })
  const prompts = context.quick ? evenly(dialogues, quickLimits.prompts) : dialogues
  const owned = drafterParts.flatMap((name) => partsOfDrafter(manifest, name))
  const threads = Math.min(4, availableParallelism())
  await using model = await openBundle(bundle, {
    library: context.io.env.ORT_LIB,
    parts: ['input', 'middle', 'output', ...owned],
    threads,
  })
  const runs: AcceptanceRun[] = []
  const parts = partsOf(model, context.io.signal)
  const replays = replaysOf(model, parts, { threshold, draftLimit })
  for (const [at, { id, task, ids }] of prompts.entries()) {
    context.progress(`prompt ${at + 1} of ${prompts.length}: ${id}, ${ids.length} tokens`)
    const answered = await answerGreedily(parts, ids, maxTokens)
    const { answer } = answered
    const of = { id, task, promptTokens: ids.length, answerTokens: answer.length, looping: isLooping(answer) }
    for (const [drafter, rounds] of replays) runs.push(runOf({ drafter, ...of }, await rounds(answered)))
  }
  const answers = runs.filter(({ drafter }) => drafter === 'none')
  const conditions = {
    ...asked,
    features: manifest.parts.adapter?.features ?? false,
    medusaTree: manifest.parts.medusa?.tree ?? null,
    answers: answers.length,
    loopingAnswers: answers.filter(({ looping }) => looping).length,
    maxTokens,
    threshold,
    draftLimit,
    temperature: 0,
    threads,
  }
  return { conditions, runs }
}

/** At most `count` of the items, from the first on, at equal distances. */
function evenly<T>(all: readonly T[], count: number): T[] {
  const step = Math.max(1, all.length / count)
  return Array.from({ length: Math.min(count, all.length) }, (_, at) => all[Math.floor(at * step)]!)
}

/** The parts that answers and replays step; their steps throw once the signal is aborted. */
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
    head: shareHead(model.head(), manifest.dims.vocab),
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

/** The drafters that the bundle has parts for. */
function replaysOf(
  model: LoadedModel,
  replayModel: ReplayModel,
  limits: ReplayLimits,
): [DrafterKind, (answered: Answered) => Promise<Round[]>][] {
  const { parts, dims } = model.manifest
  const { head } = replayModel
  const adapterHead = parts[draftOutput] ? shareHead(model.head(draftOutput), dims.vocab) : head
  const adapter = () => adapterDrafter(model.part('adapter'), adapterHead, greedy)
  /** With the part that each needs. */
  const creators: Record<DrafterKind, readonly [part: PartName | null, create: () => Drafter | TreeDrafter]> = {
    'adapter+lookup': ['adapter', () => adapterLookupDrafter(adapter(), limits.threshold)],
    adapter: ['adapter', adapter],
    'adapter-paper': ['adapter-paper', () => adapterDrafter(model.part('adapter-paper'), head, greedy)],
    lookup: [null, lookupDrafter],
    medusa: ['medusa', () => medusaDrafter(model.medusa(), dims.vocab)],
    none: [null, noDrafter],
  }
  return drafters.flatMap((kind) => {
    const [part, create] = creators[kind]
    return part && !parts[part] ? [] : [[kind, (answered) => replay(create(), replayModel, answered, limits)]]
  })
}
