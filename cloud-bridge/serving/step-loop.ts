import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Part, Sequence, StepItem } from '../../core/engine/contract.ts'
import { smooth } from '../../core/policy/hat/smooth.ts'
import type { States } from '../../core/protocol/states.ts'
import { type PackLimits, packStep } from './pack.ts'

/** Rows for one sequence, and which of them come back. */
export interface StepRequest {
  readonly sequence: Sequence
  readonly states: States
  readonly select: StepItem['select']
}

export interface StepResult {
  readonly states: States
  /** From submission to the start of the step. */
  readonly queueMs: number
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

/** A step has ended: its tokens, and how long it took. */
export type OnStep = (tokens: number, computeMs: number) => void

interface Item {
  readonly request: StepRequest
  readonly sequence: Sequence
  readonly tokens: number
  readonly submittedMs: number
  passedOver: number
  readonly resolve: (result: StepResult) => void
  readonly reject: (error: unknown) => void
}

/**
 * One part serving many sequences: packs whatever is ready into steps, one step at a time. Knows rows and sequences,
 * not whose they are or how they came.
 */
export function createStepLoop(part: Part, limits: PackLimits, clock: Clock, onStep: OnStep = () => {}): StepLoop {
  let waiting: Item[] = []
  let running: Promise<void> | undefined
  let closed = false
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

  async function run(): Promise<void> {
    while (waiting.length > 0) {
      // Whoever was answered by the last step gets the chance to be in the next.
      await nextTurn()
      const chosen = new Set(packStep(waiting, limits).map((index) => waiting[index]!))
      waiting = waiting.filter((item) => !chosen.has(item))
      for (const item of waiting) item.passedOver += 1
      if (chosen.size > 0) await step([...chosen])
    }
    // In the same turn as the last look at `waiting`: who submits after it starts the next run.
    running = undefined
  }

  async function step(items: readonly Item[]): Promise<void> {
    const startedMs = clock.nowMs()
    try {
      const rows = await part.step(items.map((item) => item.request))
      const computeMs = clock.nowMs() - startedMs
      count(items, startedMs, computeMs)
      items.forEach((item, i) => {
        item.resolve({ states: rows[i]!, queueMs: startedMs - item.submittedMs, computeMs })
      })
    } catch (error) {
      if (items.length === 1) {
        metrics.failedItems += 1
        items[0]!.reject(error)
        return
      }
      // A failed step leaves lengths as they were: alone, only the item that is to blame fails again.
      metrics.splits += 1
      for (const item of items) await step([item])
    }
  }

  function count(items: readonly Item[], startedMs: number, computeMs: number): void {
    const past = metrics.steps === 0 ? undefined : metrics
    const queueMs = items.reduce((sum, item) => sum + startedMs - item.submittedMs, 0) / items.length
    metrics.queueMs = smooth(past?.queueMs, queueMs)
    metrics.computeMs = smooth(past?.computeMs, computeMs)
    metrics.steps += 1
    metrics.items += items.length
    const tokens = items.reduce((sum, item) => sum + item.tokens, 0)
    metrics.tokens += tokens
    onStep(tokens, computeMs)
    metrics.batches[items.length] = (metrics.batches[items.length] ?? 0) + 1
  }

  return {
    metrics,
    submit(request, signal) {
      return new Promise((resolve, reject) => {
        if (closed) return reject(new BrimError('CANCELED', 'the bridge is shutting down'))
        if (signal.aborted) return reject(canceled())
        const leave = () => {
          if (!waiting.includes(item)) return
          waiting = waiting.filter((other) => other !== item)
          item.reject(canceled())
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
          tokens: request.states.rows,
          submittedMs: clock.nowMs(),
          passedOver: 0,
          resolve: settled(resolve),
          reject: settled(reject),
        }
        signal.addEventListener('abort', leave)
        waiting.push(item)
        running ??= run()
      })
    },
    async close() {
      closed = true
      const left = waiting
      waiting = []
      for (const item of left) item.reject(new BrimError('CANCELED', 'the bridge is shutting down'))
      await running
    },
  }
}

const canceled = () => new BrimError('CANCELED', 'the session ended while its rows were waiting')
