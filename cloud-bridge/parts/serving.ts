import { AnswersInProgress } from '../../core/answer/api/answers-in-progress.ts'
import type { ApiModel } from '../../core/answer/api/served.ts'
import { AnswerMeter } from '../../core/answer/endpoint/meter.ts'
import { loadPicePrompts, readPicePrompts } from '../../core/answer/sketch/load-prompts.ts'
import { generalPrompts } from '../../core/answer/sketch/prompts.ts'
import { version } from '../../core/kit/base/version.ts'
import type { ShownComputing } from '../../core/wire/protocol/computing.ts'
import type { Health } from '../../core/wire/protocol/http/bridge.ts'
import type { ServedNow } from '../../core/wire/protocol/http/served-now.ts'
import { servedNow } from '../hat/served-now.ts'
import { AnswerStarts } from '../llm/answer-starts.ts'
import { resumable } from '../llm/journalled-endpoint.ts'
import { ResumableAnswers, type ResumableModel } from '../llm/resumable-answers.ts'
import type { UpstreamView } from '../upstream/upstream-pool.ts'
import type { BridgeVariant } from '../variant.ts'
import type { Base } from './base.ts'
import type { Middle } from './middle.ts'
import type { Network } from './network.ts'
import { openSketching } from './sketching.ts'
import type { FleetWork } from './work.ts'

export interface ServedAnswers {
  readonly models: readonly ApiModel[]
  readonly starts: AnswerStarts
  /** Undefined: nothing can be resumed. */
  readonly resumable: ResumableAnswers | undefined
  readonly meter: AnswerMeter
  readonly inProgress: AnswersInProgress
  readonly upstreams: () => readonly UpstreamView[]
  /** With the HAT sessions, whose answers devices make. */
  readonly now: () => ServedNow
}

export interface OpenServing {
  /** All served models together. */
  readonly serving: Middle['serving']
  readonly steps: Middle['steps']
  readonly sessions: Middle['sessions']
  readonly plane: Middle['plane']
  /** Of the served bundles, as they were given. */
  readonly modelIds: readonly string[]
  /** What computes each of them: the CPU where a GPU was lost. */
  readonly computing: () => readonly ShownComputing[]
  readonly answers: ServedAnswers
  /** What operators see of the bridge. */
  load(): Pick<Health, 'version' | 'modelId' | 'modelIds' | 'computing' | 'uptimeS' | 'sessions' | 'kvBytes'>
}

/** What answers: the served models, with their own answers, and upstreams. */
export async function openServing(
  base: Base,
  middle: Middle,
  { announce }: Network,
  { expansions }: FleetWork,
  variant: BridgeVariant,
): Promise<OpenServing> {
  const { config, clock } = base
  const { opened, servings, serving, steps, sessions, plane, llms } = middle
  middle.onCount(announce.trigger)
  const startedMs = clock.nowMs()
  const sketching = openSketching(base, expansions, variant.sketches)
  const prompts = config.picePrompts === undefined ? generalPrompts : await readPicePrompts(config.picePrompts)
  const starts = new AnswerStarts(announce.trigger)
  const models: ApiModel[] = []
  const resumables: ResumableModel[] = []
  for (const { folder, manifest, endpoint: llm } of llms.own) {
    const { modelId, card } = manifest
    const { full, ...sketched } = sketching(llm, await loadPicePrompts(folder, prompts), resumable, (asked) =>
      starts.begin(asked),
    )
    models.push({ name: card.name, modelId, endpoint: full, createdAt: card.createdAt, ...sketched })
    resumables.push({ modelId, endpoint: full }, { modelId, endpoint: sketched.sketching.endpoint })
  }
  for (const upstream of llms.upstreams.endpoints) {
    const { name } = upstream.model
    const { full, ...sketched } = sketching(upstream, prompts, (endpoint) => endpoint)
    models.push({ name, endpoint: full, createdAt: new Date().toISOString(), ...sketched })
    resumables.push({ modelId: `upstream:${name}`, endpoint: sketched.sketching.endpoint })
  }
  const modelIds = opened.map(({ manifest }) => manifest.modelId)
  const computing = () => opened.map((model) => model.computing)
  return {
    serving,
    steps,
    sessions,
    plane,
    modelIds,
    computing,
    answers: {
      models,
      starts,
      resumable: openResumable(base, resumables),
      meter: new AnswerMeter(clock),
      inProgress: new AnswersInProgress('this bridge'),
      upstreams: () => llms.upstreams.views,
      now: () => servedNow(sessions.list(), servings),
    },
    load: () => ({
      version,
      modelId: modelIds[0] ?? null,
      modelIds,
      computing: computing(),
      uptimeS: Math.round((clock.nowMs() - startedMs) / 1_000),
      sessions: sessions.count,
      kvBytes: serving.memory.usedBytes - serving.memory.cachedBytes,
    }),
  }
}

function openResumable(
  { config, clock, closers, logger }: Base,
  models: readonly ResumableModel[],
): ResumableAnswers | undefined {
  if (models.length === 0) return undefined
  const answers = new ResumableAnswers(models, {
    stateDir: config.stateDir,
    graceMs: config.limits.answerGraceS * 1_000,
    maxDetached: config.limits.detachedAnswers,
    clock,
    logger: logger.child({ component: 'api' }),
  })
  closers.push(() => answers.close())
  return answers
}
