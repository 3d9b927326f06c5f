import type { Residency, ServingPlan, ServingPolicy, StreamState } from '../../core/policy/serving/policy.ts'
import { Reader } from '../../core/policy/serving/reader.ts'

export interface SimulatedRequest {
  readonly atMs: number
  readonly promptRows: number
  readonly tokens: number
  readonly tokensPerS: number
}

export interface SimulatedEngine {
  readonly step: { readonly rows: number; readonly streams: number }
  /** Duration of a step. */
  stepMs(rows: number): number
  /** KV of a stream with so many rows. */
  kvBytes(rows: number): number
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

/** A request in the simulation; it becomes a stream's state for each plan. */
interface Stream {
  readonly id: number
  readonly reader: Reader
  readonly maxRows: number
  readonly sentMs: number[]
  residency: Residency
  loadedMs: number
  /** Rows of the prompt and the answer so far, and how many of them the KV holds. */
  rows: number
  held: number
}

/**
 * Serves requests by a policy in simulated time, one step after the other.
 * @throws Error where the policy breaks its contract: more memory than there is, a stream that cannot run, no end
 */
export function simulate(policy: ServingPolicy, engine: SimulatedEngine, requests: readonly SimulatedRequest[]): SimulatedRun {
  const arrivals = requests.map((request, id) => ({ ...request, id })).sort((a, b) => a.atMs - b.atMs)
  const timelines: number[][] = requests.map(() => [])
  const streams = new Map<number, Stream>()
  const moves: { atMs: number; preempt: readonly number[]; resume: readonly number[] }[] = []
  let nowMs = 0
  let ioFreeMs = 0
  let preemptions = 0
  const chargeOf = ({ residency, rows }: Stream) => (residency === 'evicted' ? 0 : engine.kvBytes(rows))
  const usedBytes = () => Array.from(streams.values(), chargeOf).reduce((sum, bytes) => sum + bytes, 0)
  const demand = (fact: boolean, message: string) => {
    if (!fact) throw new Error(`at ${nowMs} ms: ${message}`)
  }

  const stateOf = (stream: Stream): StreamState => {
    const { id, residency, rows, held, reader } = stream
    const bytes = engine.kvBytes(rows)
    // A row is charged before it is computed: the last one is the growth.
    const grown = residency === 'resident' && rows > held && held > 0 ? engine.kvBytes(rows - 1) : bytes
    return {
      id,
      source: 'answer' as const,
      waitingRows: rows - held,
      phase: rows - held > 1 ? 'prefill' : 'decode',
      arrivedMs: reader.requestedMs,
      stepsSkipped: 0,
      contextLength: held,
      kvBytes: grown,
      growthBytes: bytes - grown,
      fullBytes: engine.kvBytes(stream.maxRows),
      residency,
      resumptions: engine.slow && held > 0 ? ['load', 'recompute'] : ['recompute'],
      writtenRows: engine.slow ? held : 0,
      reader,
    }
  }

  const carryOut = ({ preempt, resume, run }: ServingPlan): number => {
    if (preempt.length + resume.length > 0) moves.push({ atMs: nowMs, preempt, resume: resume.map(({ stream }) => stream) })
    for (const id of preempt) {
      const stream = streams.get(id)!
      demand(stream.residency === 'resident', `${id} was preempted though ${stream.residency}`)
      stream.residency = 'evicted'
      if (!engine.slow) stream.held = 0
      preemptions += 1
    }
    for (const { stream: id, by } of resume) {
      const stream = streams.get(id)!
      demand(stream.residency === 'evicted', `${id} was resumed though ${stream.residency}`)
      if (by === 'recompute') stream.held = 0
      const loadMs = by === 'load' ? (engine.kvBytes(stream.held) / engine.slow!.loadBytesPerS) * 1_000 : 0
      stream.residency = loadMs > 0 ? 'in flight' : 'resident'
      ioFreeMs = Math.max(ioFreeMs, nowMs) + loadMs
      stream.loadedMs = ioFreeMs
    }
    const running = run.filter(({ stream }) => streams.get(stream)!.residency === 'resident')
    demand(running.length <= engine.step.streams, 'too many streams in a step')
    for (const { stream: id, rows } of running) {
      const stream = streams.get(id)!
      demand(rows >= 1 && rows <= stream.rows - stream.held, `${rows} rows of ${id}`)
    }
    const rows = running.reduce((sum, piece) => sum + piece.rows, 0)
    demand(rows <= engine.step.rows, 'too many rows in a step')
    // Rows that do not run need no memory yet.
    const isRunning = new Set(running.map(({ stream }) => stream))
    const waitingGrowth = [...streams.values()].filter(({ id, residency }) => residency === 'resident' && !isRunning.has(id))
    const notCharged = waitingGrowth.reduce((sum, stream) => sum + stateOf(stream).growthBytes, 0)
    demand(usedBytes() - notCharged <= engine.memoryBytes, `${usedBytes()} bytes`)
    if (rows === 0) return 0
    nowMs += engine.stepMs(rows)
    for (const { stream: id, rows: count } of running) {
      const stream = streams.get(id)!
      stream.held += count
      if (stream.held < stream.rows) continue
      stream.sentMs.push(nowMs)
      stream.reader.deliver(1, nowMs)
      stream.rows += 1
      if (stream.rows > stream.maxRows) streams.delete(id)
    }
    return rows
  }

  for (let steps = 0; arrivals.length + streams.size > 0; steps += 1) {
    demand(steps < 20_000, 'the requests do not end')
    while (arrivals.length > 0 && arrivals[0]!.atMs <= nowMs) {
      const { id, atMs, promptRows, tokens, tokensPerS } = arrivals.shift()!
      const reader = new Reader(tokensPerS, tokens, atMs)
      const stream = { id, reader, residency: 'evicted', loadedMs: 0, rows: promptRows, held: 0, sentMs: timelines[id]! } as const
      streams.set(id, { ...stream, maxRows: promptRows + tokens - 1 })
    }
    for (const stream of streams.values())
      if (stream.residency === 'in flight' && stream.loadedMs <= nowMs) stream.residency = 'resident'
    const waiting = Array.from(streams.values(), stateOf)
    const growth = waiting.reduce((sum, { growthBytes }) => sum + growthBytes, 0)
    const plan = policy.plan(
      {
        waiting,
        idle: [],
        cached: [],
        memory: { budgetBytes: engine.memoryBytes, usedBytes: usedBytes() - growth },
        leavingBytes: 0,
        slow: engine.slow && { budgetBytes: engine.slow.budgetBytes, usedBytes: 0 },
        speeds: {
          tokensPerS: engine.tokensPerS,
          prefillSPerRow: engine.prefillSPerRow,
          stepSOf: (rows) => (engine.tokensPerS === undefined ? undefined : engine.stepMs(rows) / 1_000),
          evictBytesPerS: engine.slow?.loadBytesPerS,
          loadBytesPerS: engine.slow?.loadBytesPerS,
        },
        step: engine.step,
        lastDecodeMs: undefined,
      },
      nowMs,
    )
    if (carryOut(plan) > 0) continue
    const loads = [...streams.values()].filter(({ residency }) => residency === 'in flight').map(({ loadedMs }) => loadedMs)
    const moved = plan.preempt.length + plan.resume.length > 0 ? nowMs : Number.POSITIVE_INFINITY
    const next = Math.min(
      arrivals[0]?.atMs ?? Number.POSITIVE_INFINITY,
      plan.lookAgainAtMs ?? Number.POSITIVE_INFINITY,
      moved,
      ...loads,
    )
    demand(next < Number.POSITIVE_INFINITY || streams.size === 0, 'nothing will ever run')
    demand(next > nowMs || moved === nowMs || streams.size === 0, 'the policy is to look again at once')
    nowMs = Math.max(nowMs, next)
  }
  return { sentMs: timelines, preemptions, moves, endedMs: nowMs }
}
