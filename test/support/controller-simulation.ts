import { AnswerController } from '../../core/policy/disco/answer-controller.ts'
import type { ControllerAction, ControllerPlan, Piece } from '../../core/policy/disco/controller-plan.ts'
import type { Side } from '../../core/policy/disco/state.ts'

/** A piece that knows where it belongs. */
export interface SimulatedPiece extends Piece {
  readonly side: Side
  /** Tokens of the answer before it. */
  readonly at: number
  /** The piece after which its side wrote it. */
  readonly previous: SimulatedPiece | undefined
}

/** How a side behaves each time it starts. */
export interface SideScript {
  /** Until its first piece; Infinity: it never answers. */
  readonly startMs: readonly number[]
  /** Between pieces, in turn. */
  readonly gapsMs: readonly number[]
  /** Of pieces, in turn. */
  readonly tokens: readonly number[]
  /** Pieces before it breaks off, at each start; Infinity: never. */
  readonly failsAfter: readonly number[]
}

export interface SimulatedAnswer {
  readonly delivered: readonly { readonly piece: SimulatedPiece; readonly atMs: number }[]
  readonly actions: readonly { readonly action: ControllerAction<SimulatedPiece>; readonly atMs: number }[]
  readonly controller: AnswerController<SimulatedPiece>
  readonly failed: boolean
  /** The most sides that computed at once, where no answer moved and none raced. */
  readonly maxWorking: number
}

export interface Simulation {
  readonly plan: ControllerPlan
  readonly sharesTokens: boolean
  readonly scripts: Readonly<Record<Side, SideScript>>
  /** Tokens of the answer. */
  readonly length: number
  /** When sides are reported to be reachable again. */
  readonly reachable?: readonly { readonly side: Side; readonly atMs: number }[]
  readonly onStep?: (controller: AnswerController<SimulatedPiece>, nowMs: number) => void
}

interface Run {
  nextMs: number
  readonly startIndex: number
  sent: number
  at: number
  previous: SimulatedPiece | undefined
  pausedMs: number | undefined
}

const inTurn = <T>(values: readonly T[], index: number): T => values[index % values.length]!

/** Runs a controller against scripted sides, event by event. */
export function simulate({ plan, sharesTokens, scripts, length, reachable = [], onStep }: Simulation): SimulatedAnswer {
  const controller = new AnswerController<SimulatedPiece>(plan, sharesTokens)
  const delivered: { piece: SimulatedPiece; atMs: number }[] = []
  const actions: { action: ControllerAction<SimulatedPiece>; atMs: number }[] = []
  const runs: Partial<Record<Side, Run>> = {}
  const starts = { local: 0, remote: 0 }
  const returns = [...reachable].sort((a, b) => a.atMs - b.atMs)
  let failed = false
  let maxWorking = 0
  let nowMs = 0

  const carryOut = (todo: readonly ControllerAction<SimulatedPiece>[]) => {
    for (const action of todo) {
      actions.push({ action, atMs: nowMs })
      if (action.kind === 'deliver') delivered.push({ piece: action.piece, atMs: nowMs })
      else if (action.kind === 'fail') failed = true
      else if (action.kind === 'stop') {
        if (!runs[action.side]) throw new Error(`${action.side} is stopped and does not run`)
        delete runs[action.side]
      } else if (action.kind === 'start') {
        if (runs[action.side]) throw new Error(`${action.side} starts twice`)
        const startIndex = starts[action.side]++
        const at = action.after.reduce((sum, { tokens }) => sum + tokens, 0)
        const nextMs = nowMs + inTurn(scripts[action.side].startMs, startIndex)
        runs[action.side] = { nextMs, startIndex, sent: 0, at, previous: action.after.at(-1), pausedMs: undefined }
      } else {
        const run = runs[action.side]!
        if (action.kind === 'pause') run.pausedMs = nowMs
        else {
          run.nextMs += nowMs - run.pausedMs!
          run.pausedMs = undefined
        }
      }
    }
  }
  const nextOf = (side: Side) => {
    const run = runs[side]
    return run && run.pausedMs === undefined ? run.nextMs : Number.POSITIVE_INFINITY
  }
  const step = (side: Side) => {
    const run = runs[side]!
    const script = scripts[side]
    if (run.sent >= inTurn(script.failsAfter, run.startIndex)) {
      delete runs[side]
      return controller.failed(side, nowMs)
    }
    const tokens = Math.min(inTurn(script.tokens, run.at), length - run.at)
    const isLast = run.at + tokens >= length
    const border = run.at % 3 === 0 ? 'word' : run.at % 3 === 1 ? 'character' : 'none'
    const piece: SimulatedPiece = { side, at: run.at, previous: run.previous, tokens, isLast, border }
    run.sent += 1
    run.at += tokens
    run.previous = piece
    run.nextMs = nowMs + inTurn(script.gapsMs, run.at)
    if (isLast) delete runs[side]
    return controller.received(side, piece, nowMs)
  }

  carryOut(controller.begin(nowMs))
  for (let events = 0; !controller.isOver; events++) {
    if (events > 50 * length + 1_000) throw new Error('the answer does not end')
    const due = { wake: controller.wakeMs ?? Number.POSITIVE_INFINITY, local: nextOf('local'), remote: nextOf('remote') }
    const returnMs = returns[0]?.atMs ?? Number.POSITIVE_INFINITY
    const next = Math.min(due.wake, due.local, due.remote, returnMs)
    if (next === Number.POSITIVE_INFINITY) break
    nowMs = Math.max(nowMs, next)
    if (next === due.wake) carryOut(controller.advance(nowMs))
    else if (next === due.local) carryOut(step('local'))
    else if (next === due.remote) carryOut(step('remote'))
    else carryOut(controller.reachable(returns.shift()!.side, nowMs))
    onStep?.(controller, nowMs)
    const working = (['local', 'remote'] as const).filter((side) => runs[side] && runs[side].pausedMs === undefined)
    const isHandingOver = controller.winner === undefined || controller.isMigrating
    if (!isHandingOver) maxWorking = Math.max(maxWorking, working.length)
  }
  return { delivered, actions, controller, failed, maxWorking }
}
