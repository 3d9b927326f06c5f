import { seededRandom } from '../../../core/kit/base/random.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import type { ServingState, StreamState } from '../../../core/policy/serving/policy.ts'
import { Reader } from '../../../core/policy/serving/reader.ts'
import { createPolicy } from '../../../core/policy/tokenflow/named-policies.ts'
import type { Bench } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { type PlanTimes, planReport, stepMs, stepsPerInterval } from './report.ts'

const sizes = [100, 1_000, 10_000] as const
/** Plans before the measured ones: they compile. */
const warmUp = 20

export const planBench: Bench = {
  name: 'tokenflow-plan',
  options: {},
  examples: [],
  goals: { planMsAt1k: { max: 0.1 }, planMsAt10k: { max: 1 } },
  async run({ quick, progress }) {
    const intervals = quick ? 10 : 60
    const runs = sizes.map((requests) => {
      progress(`${requests} requests`)
      return measurePlans(requests, intervals)
    })
    return { conditions: { intervals, stepMs, stepsPerInterval }, summary: summarise(runs), runs }
  },
  report: planReport,
}

/** `brim bench tokenflow-plan` */
export const command = benchCommand(planBench)

/** The time of a plan, averaged over the one of an interval that chooses and all others, which only fill steps. */
export function summarise(runs: readonly PlanTimes[]) {
  const at = (requests: number) => {
    const { choiceMs, otherMs } = runs.find((run) => run.requests === requests) ?? { choiceMs: [], otherMs: [] }
    const [choice, other] = [median(choiceMs), median(otherMs)]
    return { plan: (choice + (stepsPerInterval - 1) * other) / stepsPerInterval, choice, other }
  }
  const [at1k, at10k] = [at(1_000), at(10_000)]
  return {
    planMsAt1k: at1k.plan,
    choiceMsAt1k: at1k.choice,
    otherMsAt1k: at1k.other,
    planMsAt10k: at10k.plan,
    choiceMsAt10k: at10k.choice,
    otherMsAt10k: at10k.other,
  }
}

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
