import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import type { Figure } from '../../plot/plot.ts'
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

export const attackReport: BenchReport = {
  title: 'Under attack',
  contents: 'every round trip of the honest device, and what each flood did',
  figure,
  figureText: 'Latency of an honest device beside each flood',
  tables: (document) => [floodTable(document)],
  conditions: (document) => `A \`brim bridge run --auth\` process and a \`brim agent run\` process. An enrolled device in the
benchmark's process publishes telemetry ten times a second and runs 2.5 jobs a second; the agent answers every other second.
The attacker is a process on the same machine; each flood has an enrolled device and a key of its own, a
viewer's or a client's. It runs each
flood of \`lab/attack\` alone, then all of them together for ${document.conditions.seconds} s.
${document.conditions.cpu}, ${document.conditions.cores} cores for all of them; ${loadText(document)}.

- *honestP99Ms*: PUBACK of telemetry, and submission of a job to its arrival at the device, while all floods run.
- *honestLost*: messages without acknowledgement, jobs that did not succeed and answers that failed, of *honestStarted*.
- *bridgeRssMb*: the bridge's peak of resident memory.`,
}

const runsOf = ({ runs }: BenchDocument) => runs as readonly AttackRun[]
const written = (value: number | null) => (value === null ? '–' : value.toFixed(1))

function floodTable(document: BenchDocument): Table {
  return {
    title: 'By flood',
    head: ['flood', 's', 'honest p50 ms', 'p99 ms', 'answers p99 ms', 'bridge MB', 'what the flood did'],
    rows: runsOf(document).map(({ name, s, honestP50Ms, honestP99Ms, answerP99Ms, bridgeRssMb, counts }) => [
      ...[name, String(s), written(honestP50Ms), written(honestP99Ms), written(answerP99Ms), String(bridgeRssMb ?? '–')],
      name === together ? '' : Object.values(counts).map(countsText).join('; '),
    ]),
  }
}

const countsText = (counts: Readonly<Record<string, number>>) =>
  Object.entries(counts)
    .map(([what, count]) => `${count} ${what}`)
    .join(', ')

function figure(document: BenchDocument): Figure {
  const groups = runsOf(document).map(({ name, honestP50Ms, honestP99Ms }) => ({
    label: name,
    bars: [
      { name: 'median', value: honestP50Ms ?? 0 },
      { name: 'p99', value: honestP99Ms ?? 0 },
    ],
  }))
  return {
    title: 'An honest device beside each flood',
    subtitle: `${document.conditions.cpu}, ${document.conditions.cores} cores`,
    columns: 1,
    panels: [{ kind: 'bars', title: 'Round trips of the control plane', yLabel: 'ms', groups }],
  }
}
