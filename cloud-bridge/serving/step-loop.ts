import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Part, Sequence, StepItem } from '../../core/engine/contract.ts'
import { smooth } from '../../core/policy/estimate/ewma.ts'
import { type PackLimits, packStep } from '../../core/policy/serving/pack-step.ts'
import { concatStates, type States, sliceStates } from '../../core/protocol/states.ts'

/** Rows for one sequence, and which of them come back. */
export interface StepRequest {
  readonly sequence: Sequence
  readonly states: States
  /** As in a StepItem. */
  readonly parents?: StepItem['parents']
  readonly select: StepItem['select']
  /** Of a prompt: others' next tokens go before it. */
  readonly prompt: boolean
}

export interface StepResult {
  readonly states: States
  /** From submission to the end, less the computing. */
  readonly queueMs: number
  /** Of all steps that the rows took. */
  readonly computeMs: number
}

/** Counters since the start; the averages are exponential, in ms. */
export interface ServingMetrics {
  steps: number
  items: number
  tokens: number
  /** Steps by how many sequences they served: batches[1] is how many served one. */
  batches: number[]
  /** Packed steps that failed and were done again item by item. */
  splits: number
  failedItems: number
  queueMs: number
  computeMs: number
}

export interface StepLoop {
  readonly metrics: Readonly<ServingMetrics>
  /**
   * Resolves when the step that took the item has ended. Aborting removes an item that still waits; one that is being
   * computed ends with its step. Nothing may touch the sequence in between.
   * @throws what the part's step throws; BrimError CANCELED, also after `close`
   */
  submit(request: StepRequest, signal: AbortSignal): Promise<StepResult>
  /** Rejects what waits; resolves when no step runs any more. */
  close(): Promise<void>
}

export interface StepLimits extends PackLimits {
  /** Steps under way at once: as many as the part has stages. Default: 1. */
  readonly pipeline?: number
}

/** A step that has ended. */
export interface EndedStep {
  /** By the clock of the loop. */
  readonly startedMs: number
  /** Sequences that it served. */
  readonly items: number
  readonly tokens: number
  /** From its beginning to its end, through all stages. */
  readonly computeMs: number
}

interface Item {
  readonly request: StepRequest
  readonly sequence: Sequence
  readonly prompt: boolean
  /** Rows that are still to be computed. */
  tokens: number
  /** What the steps so far returned of it. */
  readonly done: States[]
  computeMs: number
  readonly submittedMs: number
  passedOver: number
  /** Nobody waits for it any more. */
  left: boolean
  readonly resolve: (result: StepResult) => void
  readonly reject: (error: unknown) => void
}

/** An item's rows in one step. */
interface Piece {
  readonly item: Item
  readonly tokens: number
  readonly step: StepItem
}

/** The next rows of an item, and which of them come back. */
function pieceOf(item: Item, tokens: number): Piece {
  const { sequence, states, parents, select } = item.request
  const from = states.rows - item.tokens
  const to = from + tokens
  if (tokens === states.rows) return { item, tokens, step: item.request }
  return {
    item,
    tokens,
    step: {
      sequence,
      states: sliceStates(states, from, to),
      parents: parents?.slice(from, to),
      select: selectIn(select, from, to, states.rows),
    },
  }
}

/** What `select` means for rows [from, to) of `rows`. */
function selectIn(select: StepItem['select'], from: number, to: number, rows: number): StepItem['select'] {
  if (select === 'all' || select === 'none') return select
  if (select === 'last') return to === rows ? 'last' : 'none'
  const inside = select.filter((row) => row >= from && row < to).map((row) => row - from)
  return inside.length === 0 ? 'none' : inside
}

/** So long after somebody's last small step it counts as decoding still: its next rows are on their way. */
const decodingMs = 500

/**
 * One part serving many sequences: packs whatever is ready into steps, up to `pipeline` of them under way at once, never two
 * with the same sequence. Knows rows and sequences, not whose they are or how they came.
 */
export function createStepLoop(
  part: Part,
  limits: StepLimits,
  clock: Clock,
  onStep: (step: EndedStep) => void = () => {},
): StepLoop {
  const { pipeline = 1 } = limits
  let waiting: Item[] = []
  const underWay = new Set<Promise<void>>()
  /** Sequences of the steps under way. */
  const busy = new Set<Sequence>()
  let filling: Promise<void> | undefined
  let closed = false
  let decodedMs = Number.NEGATIVE_INFINITY
  const metrics: ServingMetrics = {
    steps: 0,
    items: 0,
    tokens: 0,
    batches: Array.from({ length: limits.slots + 1 }, () => 0),
    splits: 0,
    failedItems: 0,
    queueMs: 0,
    computeMs: 0,
  }

  /** Who waits and can be in the next step. */
  const ready = () => waiting.filter(({ sequence }) => !busy.has(sequence))
  const canBegin = () => underWay.size < pipeline && ready().length > 0

  /** To be called whenever `canBegin` may have become true. */
  function fill(): void {
    if (canBegin()) filling ??= beginSteps()
  }

  async function beginSteps(): Promise<void> {
    do {
      // Whoever was answered by the last step gets the chance to be in the next.
      await nextTurn()
      const items = ready()
      const decoding = clock.nowMs() - decodedMs < decodingMs
      const pieces = packStep(items, limits, decoding).map(({ index, tokens }) => pieceOf(items[index]!, tokens))
      if (pieces.length > 0) begin(pieces)
    } while (canBegin())
    // In the same turn as the last look: who comes after it begins anew.
    filling = undefined
  }

  function begin(pieces: readonly Piece[]): void {
    const chosen = new Set(pieces.map(({ item }) => item))
    waiting = waiting.filter((item) => !chosen.has(item))
    for (const item of ready()) item.passedOver += 1
    for (const { sequence } of chosen) busy.add(sequence)
    if (pieces.some(({ item }) => !item.prompt)) decodedMs = clock.nowMs()
    const running = step(pieces).finally(() => {
      underWay.delete(running)
      for (const { sequence } of chosen) busy.delete(sequence)
      fill()
    })
    underWay.add(running)
  }

  async function step(pieces: readonly Piece[]): Promise<void> {
    const startedMs = clock.nowMs()
    let rows: States[]
    try {
      rows = await part.step(pieces.map(({ step }) => step))
    } catch (error) {
      if (pieces.length === 1) {
        metrics.failedItems += 1
        pieces[0]!.item.reject(error)
        return
      }
      // A failed step leaves lengths as they were: alone, only the item that is to blame fails again.
      metrics.splits += 1
      for (const piece of pieces) await step([piece])
      return
    }
    const endedMs = clock.nowMs()
    count(pieces, startedMs, endedMs - startedMs)
    pieces.forEach((piece, i) => {
      finishPiece(piece, rows[i]!, endedMs, endedMs - startedMs)
    })
  }

  function finishPiece({ item, tokens }: Piece, rows: States, endedMs: number, computeMs: number): void {
    item.done.push(rows)
    item.computeMs += computeMs
    item.tokens -= tokens
    if (item.tokens === 0) {
      const [only] = item.done
      const states = item.done.length === 1 ? only! : concatStates(item.done, rows.width)
      item.resolve({ states, queueMs: endedMs - item.submittedMs - item.computeMs, computeMs: item.computeMs })
    } else if (closed) {
      item.reject(new BrimError('CANCELED', 'the bridge is shutting down'))
    } else if (item.left) {
      item.reject(canceled())
    } else {
      // Its turn is still what it was.
      waiting.unshift(item)
    }
  }

  function count(pieces: readonly Piece[], startedMs: number, computeMs: number): void {
    const past = metrics.steps === 0 ? undefined : metrics
    const queueMs = pieces.reduce((sum, { item }) => sum + startedMs - item.submittedMs, 0) / pieces.length
    metrics.queueMs = smooth(past?.queueMs, queueMs)
    metrics.computeMs = smooth(past?.computeMs, computeMs)
    metrics.steps += 1
    metrics.items += pieces.length
    const tokens = pieces.reduce((sum, piece) => sum + piece.tokens, 0)
    metrics.tokens += tokens
    onStep({ startedMs, items: pieces.length, tokens, computeMs })
    metrics.batches[pieces.length] = (metrics.batches[pieces.length] ?? 0) + 1
  }

  return {
    metrics,
    submit(request, signal) {
      return new Promise((resolve, reject) => {
        if (closed) return reject(new BrimError('CANCELED', 'the bridge is shutting down'))
        if (signal.aborted) return reject(canceled())
        const leave = () => {
          item.left = true
          if (waiting.includes(item)) {
            waiting = waiting.filter((other) => other !== item)
            item.reject(canceled())
          }
        }
        const settled =
          <T>(settle: (value: T) => void) =>
          (value: T) => {
            signal.removeEventListener('abort', leave)
            settle(value)
          }
        const item: Item = {
          request,
          sequence: request.sequence,
          prompt: request.prompt || request.states.rows > limits.smallTokens,
          tokens: request.states.rows,
          done: [],
          computeMs: 0,
          left: false,
          submittedMs: clock.nowMs(),
          passedOver: 0,
          resolve: settled(resolve),
          reject: settled(reject),
        }
        signal.addEventListener('abort', leave)
        waiting.push(item)
        fill()
      })
    },
    async close() {
      closed = true
      const left = waiting
      waiting = []
      for (const item of left) item.reject(new BrimError('CANCELED', 'the bridge is shutting down'))
      await filling
      await Promise.all(underWay)
    },
  }
}

const canceled = () => new BrimError('CANCELED', 'the session ended while its rows were waiting')
