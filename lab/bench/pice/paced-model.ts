import type { ModelItem, ServedModel } from '../../../cloud-bridge/serving/served-model.ts'
import type { Clock } from '../../../core/base/clock.ts'

/** Duration of a step of an emulated cloud, in ms: a constant, and a part for each row. */
export interface StepPace {
  readonly stepMs: number
  readonly rowMs: number
}

/**
 * The same model with steps of a given pace: it computes, then waits, so that the cores are free for other processes. The
 * duration does not depend on how busy the machine is, as long as the computation takes less.
 */
export function pacedModel(model: ServedModel, { stepMs, rowMs }: StepPace, clock: Clock): ServedModel {
  // A timer fires late; the next steps make up for it.
  let lateMs = 0
  return {
    rows: model.rows,
    tokens: model.tokens,
    async step(items) {
      const endMs = clock.nowMs() + stepMs + rowMs * rowsOf(items) - lateMs
      const results = await model.step(items)
      const restMs = endMs - clock.nowMs()
      if (restMs > 0) await clock.sleep(restMs)
      lateMs = Math.min(Math.max(0, clock.nowMs() - endMs), stepMs)
      return results
    },
  }
}

const rowsOf = (items: readonly ModelItem[]): number =>
  items.reduce((sum, item) => sum + ('ids' in item ? item.ids.length : item.states.rows), 0)
