import { barPanel } from '../../frame/panels.ts'
import { maxOf } from '../../frame/statistics.ts'
import { reportOf } from '../../frame/tabled-bench.ts'

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

export const chaosReport = reportOf<ChaosRun>({
  title: 'Chaos',
  contents: 'every job that took more than one attempt or went wrong',
  figureText: 'Attempts per job',
  show({ runs, summary, conditions }) {
    const repeated = runs.map(({ attempts }) => attempts).filter((attempts) => attempts > 1)
    const more = Array.from({ length: (maxOf(repeated) ?? 1) - 1 }, (_, at) => at + 2)
    return {
      figure: {
        title: 'Jobs under faults',
        subtitle: `${conditions.kills} faults, seed ${conditions.seed}`,
        columns: 1,
        panels: [
          barPanel('Attempts per job', 'jobs', [
            ['1', 'jobs', Number(summary.jobs) - repeated.length],
            ...more.map((attempts) => [String(attempts), 'jobs', repeated.filter((each) => each === attempts).length] as const),
          ]),
        ],
      },
      conditions: `A \`brim bridge run\` and ${conditions.agents} \`brim agent run\` processes; the
broker is ${conditions.broker}; MQTT passes a relay. ${conditions.inFlight} \`slm.generate\` jobs are under way at any time,
${summary.jobs} in all. Seed ${conditions.seed}; ${conditions.cpu}, ${conditions.cores} cores.

- Faults. *agent*: SIGKILL, then a start with the same state. *bridge*: likewise; an embedded broker dies with it. *broker*:
  likewise for mosquitto, which keeps no state. *link*: every MQTT connection is cut. The next fault comes 0.1 to 1 s after the
  one before is repaired.
- *lost*: acknowledged to the submitter, but not SUCCEEDED in the end. *stuck*: not ended ${settleMs / 1_000} s after the last
  fault. *doubled*: ended twice, finished twice by one device, or two jobs under one key.
- *different*: the text differs from the first answer to the same question (greedy). *repeated*: more than one attempt.`,
    }
  },
})
