import { loadText } from '../../frame/page.ts'
import { type Bar, barPanel } from '../../frame/panels.ts'
import { reportOf } from '../../frame/tabled-bench.ts'
import { tableOf, toDigits } from '../../frame/tables.ts'
import type { FloodReply } from './flood-worker.ts'
import type { HonestSample } from './honest-device.ts'

export const undisturbed = 'no flood'
export const together = 'all together'

/** A time in which one flood ran, or none, or all. */
export interface AttackRun {
  readonly name: string
  readonly s: number
  /** Of the control plane's round trips: PUBACK, and submission of a job to its arrival at the device. */
  readonly honestP99Ms: number | null
  readonly honestP50Ms: number | null
  readonly answerP99Ms: number | null
  /** At the end of the time. */
  readonly bridgeRssMb: number | null
  readonly counts: FloodReply
  readonly samples: readonly HonestSample[]
}

const ms = (value: number | null) => toDigits(value, 1)

export const attackReport = reportOf<AttackRun>({
  title: 'Under attack',
  contents: 'every round trip of the honest device, and what each flood did',
  figureText: 'Latency of an honest device beside each flood',
  show(document) {
    const { runs, conditions } = document
    const bars = runs.flatMap(({ name, honestP50Ms, honestP99Ms }): Bar[] => [
      [name, 'median', honestP50Ms],
      [name, 'p99', honestP99Ms],
    ])
    return {
      figure: {
        title: 'An honest device beside each flood',
        subtitle: `${conditions.cpu}, ${conditions.cores} cores`,
        columns: 1,
        panels: [barPanel('Round trips of the control plane', 'ms', bars)],
      },
      tables: [
        tableOf('By flood', runs, [
          ['flood', ({ name }) => name],
          ['s', ({ s }) => String(s)],
          ['honest p50 ms', ({ honestP50Ms }) => ms(honestP50Ms)],
          ['p99 ms', ({ honestP99Ms }) => ms(honestP99Ms)],
          ['answers p99 ms', ({ answerP99Ms }) => ms(answerP99Ms)],
          ['bridge MB', ({ bridgeRssMb }) => toDigits(bridgeRssMb, 0)],
          [
            'what the flood did',
            ({ name, counts }) => (name === together ? '' : Object.values(counts).map(countsText).join('; ')),
          ],
        ]),
      ],
      conditions: `A \`brim bridge run --auth\` process and a \`brim agent run\` process. An enrolled device in the
benchmark's process publishes telemetry ten times a second and runs 2.5 jobs a second; the agent answers every other second.
The attacker is a process on the same machine; each flood has an enrolled device and a key of its own, a
viewer's or a client's. It runs each
flood of \`lab/attack\` alone, then all of them together for ${conditions.seconds} s.
${conditions.cpu}, ${conditions.cores} cores for all of them; ${loadText(document)}.

- *honestP99Ms*: PUBACK of telemetry, and submission of a job to its arrival at the device, while all floods run.
- *honestLost*: messages without acknowledgement, jobs that did not succeed and answers that failed, of *honestStarted*.
- *bridgeRssMb*: the bridge's peak of resident memory.`,
    }
  },
})

const countsText = (counts: Readonly<Record<string, number>>) =>
  Object.entries(counts)
    .map(([what, count]) => `${count} ${what}`)
    .join(', ')
