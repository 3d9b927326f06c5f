import type { AnswerObserver } from '../../../agent/disco/plan.ts'
import { AnswerController } from '../../../core/policy/disco/answer-controller.ts'
import type { ControllerAction, ControllerPlan, Piece, SideWork } from '../../../core/policy/disco/controller-plan.ts'
import type { Side } from '../../../core/policy/disco/state.ts'
import type { SimulatedSide } from './simulated-side.ts'

/** An answer on the virtual clock; it begins at 0. */
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

const token: Piece = { tokens: 1, isLast: false, border: 'word' }
const lastToken: Piece = { ...token, isLast: true }
const sideNames = ['server', 'device'] as const

/**
 * Replays one answer: the agent's own `AnswerController` decides, the sides are simulated.
 * @param until 'first token': the race alone, which what follows does not change
 */
export function replayAnswer(
  plan: ControllerPlan,
  sides: Readonly<Record<Side, SimulatedSide>>,
  outputTokens: number,
  until: 'first token' | 'end',
  observe: Pick<AnswerObserver, 'firstToken' | 'canceled'>,
): ReplayedAnswer {
  const controller = new AnswerController<Piece>(plan, true)
  const written = { server: 0, device: 0 }
  /** Sides without their first token. */
  const starting: Partial<Record<Side, { readonly atMs: number; readonly tokens: number } | undefined>> = {}
  const gapsMs: number[] = []
  let ttftMs: number | undefined
  let deliveredMs = 0
  let nowMs = 0

  function act(actions: readonly ControllerAction<Piece>[]): void {
    for (const action of actions) {
      switch (action.kind) {
        case 'start': {
          const tokens = plan.promptTokens + action.after.length
          written[action.side] = action.after.length
          starting[action.side] = { atMs: nowMs, tokens }
          sides[action.side].start(nowMs, tokens)
          break
        }
        case 'pause':
        case 'stop': {
          const start = starting[action.side]
          if (start) observe.canceled(action.side, nowMs - start.atMs, start.tokens)
          starting[action.side] = undefined
          sides[action.side].stop()
          break
        }
        case 'resume':
          sides[action.side].resume(nowMs)
          break
        case 'deliver':
          if (ttftMs === undefined) ttftMs = nowMs
          else gapsMs.push(nowMs - deliveredMs)
          deliveredMs = nowMs
          break
        case 'fail':
          throw new Error('no side has failed, but the answer did')
      }
    }
  }

  act(controller.begin(nowMs))
  while (!controller.isOver && !(until === 'first token' && ttftMs !== undefined)) {
    const side = sides.server.nextMs <= sides.device.nextMs ? 'server' : 'device'
    const { nextMs } = sides[side]
    const wakeMs = controller.wakeMs ?? Number.POSITIVE_INFINITY
    nowMs = Math.min(nextMs, wakeMs)
    if (nowMs === Number.POSITIVE_INFINITY) throw new Error('nothing happens any more, but the answer has no end')
    if (wakeMs < nextMs) {
      act(controller.advance(nowMs))
      continue
    }
    const start = starting[side]
    if (start) observe.firstToken(side, nowMs - start.atMs, start.tokens)
    starting[side] = undefined
    written[side] += 1
    const isLast = written[side] === outputTokens
    if (isLast) sides[side].stop()
    else sides[side].advance()
    act(controller.received(side, isLast ? lastToken : token, nowMs))
  }
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
