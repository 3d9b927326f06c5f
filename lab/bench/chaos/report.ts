import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import type { Figure } from '../../plot/plot.ts'

/** What became of one job. */
export interface ChaosRun {
  readonly key: string
  readonly state: string
  readonly attempts: number
  /** Acknowledged to its submitter, and ended in another state than SUCCEEDED. */
  readonly lost: boolean
  /** Ended more than once, finished more than once by one device, or two jobs under one key. */
  readonly doubled: boolean
  /** Not ended `settleMs` after the last fault. */
  readonly stuck: boolean
  /** Its text differs from the first answer to the same question. */
  readonly different: boolean
}

/** Time limit for the last jobs, once the faults have ended. */
export const settleMs = 120_000

export const chaosReport: BenchReport = {
  title: 'Chaos',
  contents: 'every job that took more than one attempt or went wrong',
  figure,
  figureText: 'Attempts per job',
  conditions: ({ conditions, summary }) => `A \`brim bridge run\` and ${conditions.agents} \`brim agent run\` processes; the
broker is ${conditions.broker}; MQTT passes a relay. ${conditions.inFlight} \`slm.generate\` jobs are under way at any time,
${summary.jobs} in all. Seed ${conditions.seed}; ${conditions.cpu}, ${conditions.cores} cores.

- Faults. *agent*: SIGKILL, then a start with the same state. *bridge*: likewise; an embedded broker dies with it. *broker*:
  likewise for mosquitto, which keeps no state. *link*: every MQTT connection is cut. The next fault comes 0.1 to 1 s after the
  one before is repaired.
- *lost*: acknowledged to the submitter, but not SUCCEEDED in the end. *stuck*: not ended ${settleMs / 1_000} s after the last
  fault. *doubled*: ended twice, finished twice by one device, or two jobs under one key.
- *different*: the text differs from the first answer to the same question (greedy). *repeated*: more than one attempt.`,
}

function figure({ runs, summary, conditions }: BenchDocument): Figure {
  const repeated = (runs as readonly ChaosRun[]).filter(({ attempts }) => attempts > 1)
  const maxAttempts = Math.max(1, ...repeated.map(({ attempts }) => attempts))
  const jobsWith = (attempts: number) =>
    attempts === 1 ? Number(summary.jobs) - repeated.length : repeated.filter((run) => run.attempts === attempts).length
  const groups = Array.from({ length: maxAttempts }, (_, at) => ({
    label: String(at + 1),
    bars: [{ name: 'jobs', value: jobsWith(at + 1) }],
  }))
  return {
    title: 'Jobs under faults',
    subtitle: `${conditions.kills} faults, seed ${conditions.seed}`,
    columns: 1,
    panels: [{ kind: 'bars', title: 'Attempts per job', yLabel: 'jobs', groups }],
  }
}
