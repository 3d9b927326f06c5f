import type { ModelItem, ServedModel } from '../../../cloud-bridge/serving/served-model.ts'
import type { Clock } from '../../../core/base/clock.ts'
import type { Chain } from '../../../core/engine/contract.ts'

/** Duration of a step of an emulated machine, in ms: a constant, and a part for each row. */
export interface StepPace {
  readonly stepMs: number
  readonly rowMs: number
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
