import { join } from 'node:path'
import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { type AnswerListener, observe } from '../../core/answer/endpoint/observe.ts'
import type { PicePrompts } from '../../core/answer/sketch/prompts.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import { CloudMeter } from '../../core/policy/pice/cloud-meter.ts'
import { parseObjectives } from '../../core/policy/pice/objectives-text.ts'
import { defaultPlanTerms, planAnswer } from '../../core/policy/pice/plan-answer.ts'
import type { PlanPolicy } from '../../core/policy/pice/plan-policy.ts'
import type { ResumableEndpoint } from '../llm/journalled-endpoint.ts'
import { piceEndpoint } from '../pice/endpoint.ts'
import { likelihoodBy } from '../pice/likelihood.ts'
import { Llm } from '../pice/llm.ts'
import { Planner } from '../pice/planner.ts'
import { RelevanceCheck } from '../pice/relevance-check.ts'
import { SuitabilityMemory } from '../pice/suitability-memory.ts'
import type { SketchVariant } from '../variant.ts'
import type { Base } from './base.ts'
import type { FleetWork } from './work.ts'

/** Sketches and their expansion, for the models of a bridge. */
export function openSketching(
  { config, clock, closers, logger: parent, metrics }: Pick<Base, 'config' | 'clock' | 'closers' | 'logger' | 'metrics'>,
  { expander, lengths, profiles }: Pick<FleetWork['expansions'], 'expander' | 'lengths' | 'profiles'>,
  sketches?: SketchVariant,
) {
  const logger = parent.child({ component: 'pice' })
  const { stateDir, answerMode, sketchCandidates: candidates, sketchObjectives, limits } = config
  const planTerms = {
    ...defaultPlanTerms,
    candidates,
    maxWaitingPerDevice: limits.waitingExpansionsPerDevice,
    objectives: parseObjectives(sketchObjectives) ?? defaultPlanTerms.objectives,
  }
  const policy: PlanPolicy = sketches?.plans(planTerms) ?? ((...question) => planAnswer(...question, planTerms))
  const suitability = new SuitabilityMemory({
    file: join(stateDir, 'suitability.json'),
    random: seededRandom(nextSeed()),
    clock,
    logger,
  })
  closers.push(() => suitability.save())

  /**
   * @param bare the model's answers, whose speed is measured for plans
   * @param resumable makes them resumable, if they can be
   * @param listeners follow them, too
   */
  return <Kind extends Endpoint, Full extends Endpoint & Partial<Pick<ResumableEndpoint, 'logged'>>>(
    bare: Kind,
    prompts: PicePrompts,
    resumable: (endpoint: Kind) => Full,
    ...listeners: readonly AnswerListener[]
  ) => {
    const cloud = new CloudMeter()
    const measure: AnswerListener = ({ atMs }) => cloud.begin(atMs)
    const experience: AnswerListener = (asked) => metrics.onAnswer(asked)
    const llm = new Llm(resumable(observe(bare, clock, measure, ...listeners)), prompts)
    const planner = new Planner({
      llm,
      cloud,
      expander,
      foresight: lengths.of(bare.model.name),
      policy,
      suits: (messages, client) => suitability.suits(messages, client),
      maxForesightMs: limits.sketchS * 1_000,
      clock,
    })
    const likelihood = likelihoodBy(bare)
    const relevance = likelihood && new RelevanceCheck({ likelihood, random: seededRandom(nextSeed()), profiles, logger })
    closers.push(() => relevance?.close())
    const sketched = piceEndpoint(
      {
        llm,
        planner,
        expander,
        candidates,
        maxSketchMs: limits.sketchS * 1_000,
        maxExpansionMs: limits.expansionS * 1_000,
        clock,
        logger,
        onEnded: ({ asked, figures, expansionMs, byDevices }) => {
          relevance?.onEnded(asked, byDevices)
          metrics.onSketched(bare.model.name, figures, expansionMs)
          if (figures.confidence !== null) suitability.learn(asked.messages, clientOf(asked.request.client), figures.confidence)
        },
      },
      answerMode,
    )
    const endpoint: ResumableEndpoint = {
      ...observe(sketched, clock, experience),
      logged: (answer) => observe(sketched.logged(answer), clock, experience),
    }
    const full = resumable(observe(bare, clock, measure, ...listeners, experience))
    return { full, sketching: { endpoint, mode: answerMode } }
  }
}
