import { seededRandom } from '../../core/kit/base/random.ts'
import { median } from '../../core/policy/estimate/quantile.ts'
import type { ServingState, StreamState } from '../../core/policy/serving/policy.ts'
import { Reader } from '../../core/policy/serving/reader.ts'
import { createPolicy } from '../../core/policy/tokenflow/named-policies.ts'
import { benchCommand } from '../frame/command.ts'
import { loadText } from '../frame/page.ts'
import { barPanel } from '../frame/panels.ts'
import { tabledBench } from '../frame/tabled-bench.ts'
import { tableOf } from '../frame/tables.ts'

interface PlanTimes {
  readonly requests: number
  /** Plans that give out the memory: one of each interval. */
  readonly choiceMs: readonly number[]
  /** The plans of the other steps. */
  readonly otherMs: readonly number[]
}

const sizes = [100, 1_000, 10_000] as const
/** Plans before the measured ones: they compile. */
const warmUp = 20
/** A step of the shipped model on this machine, and so many of them in an interval of 500 ms. */
const stepMs = 25
export const stepsPerInterval = 20

const medianAt = (requests: number, times: 'choiceMs' | 'otherMs') => (runs: readonly PlanTimes[]) =>
  median(runs.find((run) => run.requests === requests)?.[times] ?? [])

/** The time of a plan, averaged over the one of an interval that chooses and all others, which only fill steps. */
const planMs = (requests: number) => (runs: readonly PlanTimes[]) =>
  (medianAt(requests, 'choiceMs')(runs) + (stepsPerInterval - 1) * medianAt(requests, 'otherMs')(runs)) / stepsPerInterval

export const tokenFlowPlanBench = tabledBench<PlanTimes>({
  name: 'tokenflow-plan',
  title: 'Planning of TokenFlow',
  contents: 'the time of every plan',
  figureText: 'Time of a plan against the number of requests',
  figures: {
    planMsAt1k: [planMs(1_000), { max: 0.1 }],
    choiceMsAt1k: [medianAt(1_000, 'choiceMs')],
    otherMsAt1k: [medianAt(1_000, 'otherMs')],
    planMsAt10k: [planMs(10_000), { max: 1 }],
    choiceMsAt10k: [medianAt(10_000, 'choiceMs')],
    otherMsAt10k: [medianAt(10_000, 'otherMs')],
  },
  async measure({ quick, progress }) {
    const intervals = quick ? 10 : 60
    const runs = sizes.map((requests) => {
      progress(`${requests} requests`)
      return measurePlans(requests, intervals)
    })
    return { conditions: { intervals, stepMs, stepsPerInterval }, runs }
  },
  show(document) {
    const { runs, conditions } = document
    const panel = (title: string, times: 'choiceMs' | 'otherMs') =>
      barPanel(
        title,
        'ms',
        runs.map((run) => [`${run.requests} requests`, 'tokenflow', median(run[times])]),
      )
    return {
      figure: {
        title: 'Time of a plan',
        subtitle: String(conditions.cpu),
        columns: 2,
        panels: [panel('Choice, once per interval', 'choiceMs'), panel('Other plans', 'otherMs')],
      },
      tables: [
        tableOf('Median time of a plan', runs, [
          ['requests', (run) => String(run.requests)],
          ['choice, ms', (run) => median(run.choiceMs).toFixed(3)],
          ['others, ms', (run) => median(run.otherMs).toFixed(3)],
        ]),
      ],
      conditions: `${conditions.cpu}, ${conditions.cores} cores; ${loadText(document)}; ${conditions.intervals} intervals.

- The memory is full and overcommitted five times: a fifth of the requests is resident, a fifth has not begun.
- *plan* is the mean over an interval of 500 ms with ${stepsPerInterval} steps of ${stepMs} ms: one plan gives out the memory, the others fill a
  step. Medians of each kind are averaged.
- The step loop's building of the state objects is not part of these figures.`,
    }
  },
})

export const command = benchCommand(tokenFlowPlanBench)

/** Plans of a policy for a bridge with so many requests, interval after interval. */
export function measurePlans(requests: number, intervals: number): PlanTimes {
  const policy = createPolicy('tokenflow', { promptRows: 128, minPromptRows: 16 })
  const startMs = 1e6
  const state = stateOf(requests, startMs)
  const [choiceMs, otherMs]: [number[], number[]] = [[], []]
  for (let interval = -warmUp; interval < intervals; interval += 1)
    for (let step = 0; step < stepsPerInterval; step += 1) {
      const nowMs = startMs + (interval + warmUp) * 501 + step * 0.01
      const begunMs = performance.now()
      policy.plan(state, nowMs)
      const tookMs = performance.now() - begunMs
      if (interval >= 0) (step === 0 ? choiceMs : otherMs).push(tookMs)
    }
  return { requests, choiceMs, otherMs }
}

/**
 * Full memory, overcommitted five times: a fifth of the requests resident, a fifth not begun, some readers without tokens, others
 * with many, so that every interval calls for a choice.
 */
function stateOf(requests: number, nowMs: number): ServingState {
  const random = seededRandom(1)
  const waiting = Array.from({ length: requests }, (_, id): StreamState => {
    const reader = new Reader(3 + (id % 7), 256, nowMs - 5_000)
    const hasBegun = id % 5 < 4
    if (hasBegun) reader.deliver(6 + Math.floor(40 * random.next()), nowMs - 2_000)
    return {
      id,
      client: '',
      source: 'answer',
      arrivedMs: 0,
      stepsSkipped: 0,
      growthBytes: 0,
      fullBytes: 512,
      reader,
      residency: id % 5 === 0 ? 'resident' : 'evicted',
      contextLength: hasBegun ? 100 : 0,
      waitingRows: hasBegun ? 1 : 80,
      phase: hasBegun ? 'decode' : 'prefill',
      kvBytes: 128 + (id % 3) * 64,
      resumptions: hasBegun ? ['load', 'recompute'] : ['recompute'],
      writtenRows: hasBegun ? 100 : 0,
    }
  })
  const residents = waiting.filter(({ residency }) => residency === 'resident')
  const usedBytes = residents.reduce((sum, { kvBytes }) => sum + kvBytes, 0)
  return {
    waiting,
    idle: [],
    cached: [],
    memory: { budgetBytes: usedBytes + 100, usedBytes },
    leavingBytes: 0,
    slow: { budgetBytes: 1e9 },
    speeds: {
      tokensPerS: requests * 7,
      prefillSPerRow: 0.0006,
      stepSOf: () => stepMs / 1_000,
      evictBytesPerS: 1e6,
      loadBytesPerS: 1e6,
    },
    step: { rows: 512, streams: 16 },
    lastDecodeMs: undefined,
  }
}
