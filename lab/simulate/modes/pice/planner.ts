import { parseObjectives } from '../../../../core/policy/pice/objectives-text.ts'
import { type AnswerPlan, defaultPlanTerms, isFinal, longTokens } from '../../../../core/policy/pice/plan-answer.ts'
import { type PlanPolicy, planPolicy, type SketchPolicy } from '../../../../core/policy/pice/plan-policy.ts'
import type { SketchPlan } from '../../../../core/policy/pice/sketch-plans.ts'
import { SketchesUnderWay } from '../../../../core/policy/pice/sketches-under-way.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { World } from '../../world/world.ts'
import { type Llm, llmOf } from '../llm.ts'
import type { SketchFleet } from './sketch-fleet.ts'

/** Decides which answers are sketched: cloud-bridge/pice/planner.ts on the virtual clock. Mutable. */
export class SketchPlanner {
  readonly #world: World
  readonly #settings: PiceSettings
  readonly #llm: Llm
  readonly #fleet: SketchFleet
  readonly #policy: PlanPolicy
  /** Sketches that are being written. */
  readonly #sketching = new SketchesUnderWay()

  constructor(world: World, fleet: SketchFleet, policy: SketchPolicy, settings: PiceSettings) {
    const { candidates, overlaps, waitingPerDevice, objectives, tokensPerSentence, minTokens } = settings
    this.#world = world
    this.#settings = settings
    this.#llm = llmOf(world)
    this.#fleet = fleet
    this.#policy = planPolicy(policy, {
      ...defaultPlanTerms,
      tokensPerSentence,
      minTokens,
      candidates,
      overlap: overlaps,
      maxWaitingPerDevice: waitingPerDevice,
      objectives: parseObjectives(objectives)!,
    })
  }

  /** Whether an answer is full whatever its length. */
  isFullAnyway(tokensPerS: number): boolean {
    const plan = this.plan(longTokens, tokensPerS)
    return plan?.mode === 'full' && isFinal(plan.reason)
  }

  /** @param tokensPerS of the reader @param waitedS for the length @returns undefined: the speed of the LLM is unknown */
  plan(expectedTokens: number, tokensPerS: number, waitedS = 0): AnswerPlan | undefined {
    const { speed } = this.#llm
    if (!speed) return undefined
    const { devices, waiting } = this.#fleet.view()
    const { nowMs } = this.#world.simulation
    const view = { devices, waiting: this.#settings.countsSketching ? [...waiting, ...this.#sketching.waiting(nowMs)] : waiting }
    const question = {
      expectedTokens,
      isSketchRequested: false,
      waitedS,
      tokensPerS: this.#settings.readsAlong ? tokensPerS : undefined,
    }
    return this.#policy(question, view, speed, this.#settings.sketchShares)
  }

  /** The LLM begins to write a sketch, with which plans that follow count. @returns to be called when it ends */
  begin(id: number, expectedTokens: number, plan: Pick<SketchPlan, 'sketchS'>): () => void {
    return this.#sketching.begin(String(id), expectedTokens, plan, this.#world.simulation.nowMs)
  }
}
