import type { OpenSmall } from '../../agent/slm/local-model.ts'
import type { OpenModel } from '../../cloud-bridge/serving/open-served-model.ts'
import type { ModelItem, ServedModel } from '../../cloud-bridge/serving/served-model.ts'
import { type Clock, systemClock } from '../../core/kit/base/clock.ts'
import type { Chain } from '../../core/model/engine/contract.ts'
import type { StepPace } from '../cluster/cluster.ts'

/** Of a bridge that stands for a cloud with a larger model. */
export const pacedBundle =
  (pace: StepPace): OpenModel =>
  async (bundle) => {
    const { openServedModel } = await import('../../cloud-bridge/serving/open-served-model.ts')
    const opened = await openServedModel(bundle)
    return { ...opened, served: pacedModel(opened.served, pace, systemClock) }
  }

/** Of an agent that stands for a device with larger small models. */
export const pacedSmallModel =
  (pace: StepPace): OpenSmall =>
  async (bundle) => {
    const { openLocalModel } = await import('../../agent/slm/local-model.ts')
    const opened = await openLocalModel(bundle)
    return { ...opened, chain: pacedChain(opened.chain, pace, systemClock) }
  }

/**
 * The same model with steps of a given pace: it computes, then waits, so that the cores are free for other processes. The
 * duration does not depend on how busy the machine is, as long as the computation takes less.
 */
export function pacedModel(model: ServedModel, pace: StepPace, clock: Clock): ServedModel {
  const steps = new PacedSteps(pace, clock)
  return { rows: model.rows, tokens: model.tokens, step: (items) => steps.run(rowsOf(items), () => model.step(items)) }
}

/** Likewise, of a small model on a device. */
export function pacedChain(chain: Chain, pace: StepPace, clock: Clock): Chain {
  const steps = new PacedSteps(pace, clock)
  return {
    manifest: chain.manifest,
    createSequence: () => chain.createSequence(),
    step: (items) =>
      steps.run(
        items.reduce((sum, { ids }) => sum + ids.length, 0),
        () => chain.step(items),
      ),
  }
}

class PacedSteps {
  readonly #pace: StepPace
  readonly #clock: Clock
  /** A timer fires late; the next steps make up for it. */
  #lateMs = 0

  constructor(pace: StepPace, clock: Clock) {
    this.#pace = pace
    this.#clock = clock
  }

  async run<T>(rows: number, compute: () => Promise<T>): Promise<T> {
    const { stepMs, rowMs } = this.#pace
    const endMs = this.#clock.nowMs() + stepMs + rowMs * rows - this.#lateMs
    const result = await compute()
    const restMs = endMs - this.#clock.nowMs()
    if (restMs > 0) await this.#clock.sleep(restMs)
    this.#lateMs = Math.min(Math.max(0, this.#clock.nowMs() - endMs), stepMs)
    return result
  }
}

const rowsOf = (items: readonly ModelItem[]): number =>
  items.reduce((sum, item) => sum + ('ids' in item ? item.ids.length : item.states.rows), 0)
