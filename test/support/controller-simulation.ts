import { AnswerController } from '../../core/policy/disco/answer-controller.ts'
import type { ControllerAction, ControllerPlan, Piece, StartListener } from '../../core/policy/disco/controller-plan.ts'
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

/** What came of a start of a side: its first token, or its end before, after so many ms and with so many tokens to read. */
export interface SimulatedStart {
  readonly kind: 'first token' | 'canceled' | 'failed'
  readonly side: Side
  readonly ms: number
  readonly tokens: number
}

export interface SimulatedAnswer {
  readonly delivered: readonly { readonly piece: SimulatedPiece; readonly atMs: number }[]
  readonly actions: readonly { readonly action: ControllerAction<SimulatedPiece>; readonly atMs: number }[]
  readonly controller: AnswerController<SimulatedPiece>
  readonly failed: boolean
  /** What came of the starts, in order, and what the controller has taught of them. */
  readonly starts: readonly SimulatedStart[]
  readonly learned: readonly SimulatedStart[]
  /** The most sides that computed at once, where no answer moved and none raced. */
  readonly maxWorking: number
}

export interface Simulation {
  readonly plan: Omit<ControllerPlan, 'learn'>
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
  readonly startedMs: number
  /** Tokens to read before its first. */
  readonly tokens: number
  readonly startIndex: number
  sent: number
  at: number
  previous: SimulatedPiece | undefined
  pausedMs: number | undefined
}

const inTurn = <T>(values: readonly T[], index: number): T => values[index % values.length]!

/** Runs a controller against scripted sides, event by event. */
export function simulate({ plan, sharesTokens, scripts, length, reachable = [], onStep }: Simulation): SimulatedAnswer {
  const starts: SimulatedStart[] = []
  const learned: SimulatedStart[] = []
  const learn: StartListener = {
    started() {},
    gap() {},
    failed() {},
    firstToken: (side, ms, tokens) => learned.push({ kind: 'first token', side, ms, tokens }),
    canceled: (side, ms, tokens) => learned.push({ kind: 'canceled', side, ms, tokens }),
  }
  const controller = new AnswerController<SimulatedPiece>({ ...plan, learn }, sharesTokens)
  const delivered: { piece: SimulatedPiece; atMs: number }[] = []
  const actions: { action: ControllerAction<SimulatedPiece>; atMs: number }[] = []
  const runs: Partial<Record<Side, Run>> = {}
  const startCounts = { local: 0, remote: 0 }
  const returns = [...reachable].sort((a, b) => a.atMs - b.atMs)
  let failed = false
  let maxWorking = 0
  let nowMs = 0

  const ended = (kind: SimulatedStart['kind'], side: Side, { startedMs, tokens }: Run) =>
    starts.push({ kind, side, ms: nowMs - startedMs, tokens })
  const carryOut = (todo: readonly ControllerAction<SimulatedPiece>[]) => {
    for (const action of todo) {
      actions.push({ action, atMs: nowMs })
      if (action.kind === 'deliver') delivered.push({ piece: action.piece, atMs: nowMs })
      else if (action.kind === 'fail') failed = true
      else if (action.kind === 'stop') {
        const run = runs[action.side]
        if (!run) throw new Error(`${action.side} is stopped and does not run`)
        if (run.sent === 0) ended('canceled', action.side, run)
        delete runs[action.side]
      } else if (action.kind === 'start') {
        if (runs[action.side]) throw new Error(`${action.side} starts twice`)
        const startIndex = startCounts[action.side]++
        const at = action.after.reduce((sum, { tokens }) => sum + tokens, 0)
        const nextMs = nowMs + inTurn(scripts[action.side].startMs, startIndex)
        const previous = action.after.at(-1)
        const own = { startedMs: nowMs, tokens: plan.promptTokens + at, pausedMs: undefined }
        runs[action.side] = { ...own, nextMs, startIndex, sent: 0, at, previous }
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
      if (run.sent === 0) ended('failed', side, run)
      delete runs[side]
      return controller.handle({ kind: 'failed', side }, nowMs)
    }
    const tokens = Math.min(inTurn(script.tokens, run.at), length - run.at)
    const isLast = run.at + tokens >= length
    const border = run.at % 3 === 0 ? 'word' : run.at % 3 === 1 ? 'character' : 'none'
    const piece: SimulatedPiece = { side, at: run.at, previous: run.previous, tokens, isLast, border }
    if (run.sent === 0) ended('first token', side, run)
    run.sent += 1
    run.at += tokens
    run.previous = piece
    run.nextMs = nowMs + inTurn(script.gapsMs, run.at)
    if (isLast) delete runs[side]
    return controller.handle({ kind: 'received', side, piece }, nowMs)
  }

  carryOut(controller.handle({ kind: 'begin' }, nowMs))
  for (let events = 0; !controller.isOver; events++) {
    if (events > 50 * length + 1_000) throw new Error('the answer does not end')
    const due = { wake: controller.wakeMs ?? Number.POSITIVE_INFINITY, local: nextOf('local'), remote: nextOf('remote') }
    const returnMs = returns[0]?.atMs ?? Number.POSITIVE_INFINITY
    const next = Math.min(due.wake, due.local, due.remote, returnMs)
    if (next === Number.POSITIVE_INFINITY) break
    nowMs = Math.max(nowMs, next)
    if (next === due.wake) carryOut(controller.handle({ kind: 'tick' }, nowMs))
    else if (next === due.local) carryOut(step('local'))
    else if (next === due.remote) carryOut(step('remote'))
    else carryOut(controller.handle({ kind: 'reachable', side: returns.shift()!.side }, nowMs))
    onStep?.(controller, nowMs)
    const working = (['local', 'remote'] as const).filter((side) => runs[side] && runs[side].pausedMs === undefined)
    const isHandingOver = controller.winner === undefined || controller.isMigrating
    if (!isHandingOver) maxWorking = Math.max(maxWorking, working.length)
  }
  return { delivered, actions, controller, failed, starts, learned, maxWorking }
}
