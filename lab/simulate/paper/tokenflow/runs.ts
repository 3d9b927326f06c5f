import { groupBy, mean } from '../../../frame/statistics.ts'
import type { ScenarioResult } from '../../run/result.ts'
import type { AnswerRecord } from '../../world/answer-record.ts'
import type { PaperRun } from '../quantity.ts'
import type { Case } from './settings.ts'

/** What one server made of one set-up, with one seed. */
export interface FlowRun extends Case {
  readonly seed: number
  /** From the first request to the last token. */
  readonly totalS: number
  /** Tokens per second; effective: weighted by what their readers have not read yet (Eq. 1). */
  readonly effectivePerS: number
  readonly rawPerS: number
  readonly meanTtftS: number
  readonly p50TtftS: number
  readonly p99TtftS: number
  /** Mean over answers. */
  readonly stalledS: number
  readonly qos: number
  readonly preemptions: number
  readonly movedGb: number
  /** Of one long run: requests without and with a first token that have not ended, each so many seconds. */
  readonly timeline?: Timeline
}

export interface Timeline {
  readonly everyS: number
  readonly queued: readonly number[]
  readonly running: readonly number[]
}

/** @param records of all answers of a run */
export function timelineOf(records: readonly AnswerRecord[], everyS: number): Timeline {
  const lastMs = records.reduce((last, { endedMs }) => Math.max(last, endedMs), 0)
  const points = Math.floor(lastMs / (1_000 * everyS)) + 1
  const count = (from: (record: AnswerRecord) => number, to: (record: AnswerRecord) => number): number[] => {
    const counts = new Array<number>(points).fill(0)
    for (const record of records)
      for (let at = Math.ceil(from(record) / (1_000 * everyS)); at < points && at * everyS * 1_000 < to(record); at += 1)
        counts[at]! += 1
    return counts
  }
  const begunMs = ({ atMs, ttftMs }: AnswerRecord) => atMs + ttftMs
  return { everyS, queued: count(({ atMs }) => atMs, begunMs), running: count(begunMs, ({ endedMs }) => endedMs) }
}

export function flowRun(one: Case, seed: number, { durationS, all, engines }: ScenarioResult): FlowRun {
  const sumOf = (value: (engine: ScenarioResult['engines'][number]) => number) =>
    engines.reduce((sum, engine) => sum + value(engine), 0)
  return {
    ...one,
    seed,
    totalS: durationS,
    effectivePerS: all.effectiveTokensPerS,
    rawPerS: all.tokensPerS,
    meanTtftS: all.ttftMs.mean / 1_000,
    p50TtftS: all.ttftMs.p50 / 1_000,
    p99TtftS: all.ttftMs.p99 / 1_000,
    stalledS: all.stalledMs.mean / 1_000,
    qos: all.qos,
    preemptions: sumOf(({ preemptions }) => preemptions),
    movedGb: sumOf(({ savedBytes, loadedBytes }) => savedBytes + loadedBytes) / 1e9,
  }
}

const metrics = [
  ...['totalS', 'effectivePerS', 'rawPerS', 'meanTtftS', 'p50TtftS', 'p99TtftS'],
  ...['stalledS', 'qos', 'preemptions', 'movedGb'],
] as readonly (keyof FlowRun)[]
const changed = ['tokensPerS', 'intervalMs', 'conservativeness', 'without'] as const
const unchanged = { tokensPerS: 20, intervalMs: 500, conservativeness: 'default', without: 'nothing' }

/** Means over the seeds of each case, in which every setting has a value. */
export function comparedRuns(runs: readonly FlowRun[]): readonly PaperRun[] {
  const byCase = groupBy(runs, (run) => [run.setup, run.server, ...changed.map((key) => run[key])].join('\n'))
  return byCase.map((own) => ({
    ...unchanged,
    ...own[0],
    ...Object.fromEntries(metrics.map((metric) => [metric, mean(own.map((run) => run[metric] as number))])),
    ...(own[0]!.timeline && timelineFigures(own[0]!.timeline)),
  }))
}

function timelineFigures({ everyS, queued, running }: Timeline) {
  const pointsOf = (counts: readonly number[]) => counts.map((count, at) => [at * everyS, count])
  return {
    ...{ queuedPoints: pointsOf(queued), runningPoints: pointsOf(running) },
    ...{ mostQueued: Math.max(...queued), mostRunning: Math.max(...running) },
  }
}
