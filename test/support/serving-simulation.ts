import type { ServingPolicy } from '../../core/policy/serving/policy.ts'
import { Simulation } from '../../lab/simulate/kernel/simulation.ts'
import { SimulatedEngine } from '../../lab/simulate/serving/simulated-engine.ts'

export interface SimulatedRequest {
  readonly atMs: number
  readonly promptRows: number
  readonly tokens: number
  readonly tokensPerS: number
  /** Default: all requests are of one. */
  readonly client?: string
}

export interface TestEngine {
  readonly step: { readonly rows: number; readonly streams: number }
  /** Duration of a step. */
  stepMs(rows: number): number
  /** KV of a stream with so many rows. */
  kvBytes(rows: number): number
  /** Of each row in the slow tier; default: 1. */
  readonly bytesPerRow?: number
  readonly memoryBytes: number
  /** Absent: evicted KV is dropped, and recomputed. */
  readonly slow?: { readonly budgetBytes: number; readonly loadBytesPerS: number }
  /** What the policy is told that the engine generates. */
  readonly tokensPerS?: number
  readonly prefillSPerRow?: number
}

export interface SimulatedRun {
  /** When each token of each request was sent. */
  readonly sentMs: readonly (readonly number[])[]
  readonly preemptions: number
  /** Plans that moved KV. */
  readonly moves: readonly { readonly atMs: number; readonly preempt: readonly number[]; readonly resume: readonly number[] }[]
  readonly endedMs: number
}

/** More events than any of these runs needs. */
const maxEvents = 200_000

/** Serves requests by a policy on the laboratory's engine. @throws Error where they do not end */
export function simulate(policy: ServingPolicy, engine: TestEngine, requests: readonly SimulatedRequest[]): SimulatedRun {
  const { step, memoryBytes, slow, tokensPerS, prefillSPerRow } = engine
  const simulation = new Simulation(1)
  const moves: { atMs: number; preempt: readonly number[]; resume: readonly number[] }[] = []
  const sentMs: number[][] = requests.map(() => [])
  const kv = { bytesPerPosition: engine.bytesPerRow ?? 1, chargeOf: engine.kvBytes }
  const watched: ServingPolicy = {
    ...policy,
    plan(state, nowMs) {
      const plan = policy.plan(state, nowMs)
      const { preempt, resume } = plan
      if (preempt.length + resume.length > 0) moves.push({ atMs: nowMs, preempt, resume: resume.map(({ stream }) => stream) })
      return plan
    },
  }
  const serving = new SimulatedEngine(simulation, {
    policy: watched,
    stepS: ({ rows }) => engine.stepMs(rows) / 1_000,
    stepJitter: 0,
    answerKv: kv,
    deviceKv: kv,
    firstPositions: 1,
    memoryBytes,
    slowBytes: slow?.budgetBytes ?? 0,
    transferBytesPerS: slow?.loadBytesPerS ?? Number.POSITIVE_INFINITY,
    waitsForTransfers: false,
    writeThrough: true,
    overlap: true,
    step,
    pipeline: 1,
    pipelinedPrompts: false,
    maxDecodeRows: 1,
    maxWaiting: Number.POSITIVE_INFINITY,
    speeds: {
      tokensPerS,
      prefillSPerRow,
      stepSOf: (rows) => (tokensPerS === undefined ? undefined : engine.stepMs(rows) / 1_000),
      evictBytesPerS: slow?.loadBytesPerS,
      loadBytesPerS: slow?.loadBytesPerS,
    },
  })
  for (const [i, { atMs, promptRows, tokens, tokensPerS: rate, client = '' }] of requests.entries())
    simulation.at(atMs, () => {
      serving.answer({
        promptTokens: promptRows,
        outputTokens: tokens,
        client,
        cachedTokens: 0,
        tokensPerS: rate,
        token() {
          sentMs[i]!.push(simulation.nowMs)
        },
        refused() {
          throw new Error('the queue has no end')
        },
      })
    })
  if (simulation.advance(maxEvents)) throw new Error(`at ${simulation.nowMs} ms the requests have not ended`)
  const endedMs = Math.max(...sentMs.map((times) => times.at(-1) ?? 0))
  return { sentMs, preemptions: serving.figures.preemptions, moves, endedMs }
}
