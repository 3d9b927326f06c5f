import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { BrimError } from '../../../core/base/errors.ts'
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
import { loadChatTemplate } from '../../../core/text/chat-template.ts'
import { loadTokenizer } from '../../../core/text/tokenizer.ts'
import type { BenchContext, BenchResult } from '../frame/bench.ts'
import { isLooping } from '../looping.ts'
import { type BenchPrompt, readPrompts } from '../prompts.ts'
import { type AcceptanceRun, acceptLength, type DrafterKind, drafters, runOf } from './figures.ts'
import { type Answered, answerGreedily, type ReplayLimits, type ReplayModel, type Round, replay, replayTrees } from './replay.ts'

export interface AcceptanceLimits extends ReplayLimits {
  /** Folder of a split bundle. */
  readonly folder: string
  /** Of prompts. */
  readonly file: string
  /** If the file holds more prompts, they are taken evenly. */
  readonly maxPrompts: number
  readonly maxTokens: number
}

/** @throws BrimError BUNDLE_INVALID, or REQUEST_INVALID for prompts, before a model is loaded */
export async function benchAcceptance(
  { folder, file, maxPrompts, maxTokens, ...limits }: AcceptanceLimits,
  context: BenchContext,
): Promise<BenchResult> {
  const manifest = await readManifest(folder)
  if (manifest.split === null)
    throw new BrimError('BUNDLE_INVALID', `${folder} holds a whole model, which neither drafts nor verifies`, {
      hint: 'build the bundle with --split',
    })
  const all = await readPromptsFor(manifest, folder, file)
  const prompts = evenly(all, maxPrompts)
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
  const head = shareHead(model.head(), dims.vocab)
  const isAvailable: Record<DrafterKind, boolean> = {
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
    .filter((kind) => isAvailable[kind])
    .map((kind) => [
      kind,
      kind === 'medusa'
        ? (answered) => replayTrees(medusaDrafter(model.medusa(), dims.vocab), replayModel, answered)
        : (answered) => replay(create[kind](), replayModel, answered, limits),
    ])
}

function summarise(runs: readonly AcceptanceRun[]): BenchResult['summary'] {
  const of = (drafter: DrafterKind, among = runs) => acceptLength(among.filter((run) => run.drafter === drafter))
  const withoutLoops = runs.filter(({ looping }) => !looping)
  return {
    acceptLengthAdapter: of('adapter'),
    acceptLengthAdapterPaper: of('adapter-paper'),
    acceptLengthMedusa: of('medusa'),
    acceptLengthLookup: of('lookup'),
    acceptLengthAdapterLookup: of('adapter+lookup'),
    acceptLengthAdapterWithoutLoops: of('adapter', withoutLoops),
    loopingAnswers: runs.filter(({ drafter, looping }) => drafter === 'none' && looping).length,
  }
}
