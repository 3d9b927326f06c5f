import type { ControllerPlan, SideWork } from '../../../core/policy/disco/controller-plan.ts'
import type { Side } from '../../../core/policy/disco/state.ts'
import type { Simulation } from '../../simulate/kernel/simulation.ts'
import type { SimulatedSide } from '../../simulate/modes/disco/simulated-side.ts'
import { TwoSidedAnswer } from '../../simulate/modes/disco/two-sided-answer.ts'

/** An answer on the virtual clock. */
export interface ReplayedAnswer {
  readonly ttftMs: number
  /** Of each delivered token but the first: the time since the one before. */
  readonly gapsMs: readonly number[]
  readonly work: Readonly<Record<Side, SideWork>>
  /** Whether another side took over. */
  readonly hasMigrated: boolean
  /** Attempts to migrate that were given up: the source went on. */
  readonly failedMigrations: number
  /** Tokens that were delivered later than at the reader's rate because of migrations. */
  readonly delayedTokens: number
}

const sideNames = ['remote', 'local'] as const

/**
 * Replays one answer, alone on the clock.
 * @param until 'first token': the race alone, which what follows does not change
 */
export function replayAnswer(
  simulation: Simulation,
  plan: ControllerPlan,
  sides: Readonly<Record<Side, SimulatedSide>>,
  outputTokens: number,
  until: 'first token' | 'end',
): ReplayedAnswer {
  const begunMs = simulation.nowMs
  const gapsMs: number[] = []
  let ttftMs: number | undefined
  let deliveredMs = 0
  let isOver = false
  const answer = new TwoSidedAnswer(simulation, plan, sides, outputTokens, {
    delivered() {
      const { nowMs } = simulation
      if (ttftMs === undefined) ttftMs = nowMs - begunMs
      else gapsMs.push(nowMs - deliveredMs)
      deliveredMs = nowMs
    },
    ended(hasFailed) {
      if (hasFailed) throw new Error('no side has failed, but the answer did')
      isOver = true
    },
  })
  const isDone = () => isOver || (until === 'first token' && ttftMs !== undefined)
  answer.begin()
  while (!isDone())
    if (!simulation.advance(1) && !isDone()) throw new Error('nothing happens any more, but the answer has no end')
  answer.abandon()
  const { controller } = answer
  const migrations = controller.migrations.filter(({ succeeded }) => succeeded)
  return {
    ttftMs: ttftMs ?? Number.NaN,
    gapsMs,
    work: Object.fromEntries(sideNames.map((side) => [side, controller.workOf(side)])) as Record<Side, SideWork>,
    hasMigrated: migrations.length > 0,
    failedMigrations: controller.migrations.length - migrations.length,
    delayedTokens: migrations.reduce((sum, { delayedTokens }) => sum + delayedTokens, 0),
  }
}
