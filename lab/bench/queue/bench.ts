import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../../core/base/version.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { renderFigure } from '../../plot/plot.ts'
import { type Bench, type BenchDocument, benchCommand } from '../frame.ts'
import { benchDispatch } from './dispatch.ts'
import { benchEnqueue, benchFinished, summariseStore } from './store.ts'

export const queueBench: Bench = {
  name: 'queue',
  reach: {
    enqueueOverRaw: { atLeast: 0.8 },
    enqueueBatchedOverRaw: { atLeast: 0.8 },
    slowdownAt100k: { atMost: 1.1 },
    dispatchP50Ms: { atMost: 5 },
    dispatchP99Ms: { atMost: 20 },
  },
  options: {},
  async run({ quick, progress, io }) {
    const dir = benchDir()
    try {
      const rounds = benchEnqueue(dir, quick ? 5 : 15, quick ? 1_000 : 4_000, progress)
      const finished = 100_000
      const lives = benchFinished(dir, { rounds: quick ? 5 : 15, jobs: quick ? 1_000 : 4_000, finished }, progress)
      const jobs = quick ? 1_000 : 4_000
      const bundle = await ensureDemoBundle()
      const dispatch = await benchDispatch({ bundle, dir, devices: 200, jobs, perS: 100 }, io, progress)
      const { p50Ms: dispatchP50Ms, p99Ms: dispatchP99Ms } = dispatch
      const conditions = {
        synchronous: 'FULL',
        journal: 'WAL',
        batch: 50,
        finished,
        devices: dispatch.devices,
        jobs,
        perS: dispatch.perS,
      }
      const summary = { ...summariseStore(rounds, lives), dispatchP50Ms, dispatchP99Ms }
      return { conditions, summary, runs: [...rounds, ...lives, dispatch] }
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  },
  report: (document, goals) => ({ svg: figure(document), markdown: page(document, goals) }),
}

/** `brim bench queue` */
export const command = benchCommand(queueBench)

/** A temporary folder may be memory: the project's is on a disk. */
function benchDir(): string {
  const cache = fileURLToPath(new URL('.cache/', projectRoot))
  mkdirSync(cache, { recursive: true })
  return mkdtempSync(join(cache, 'bench-queue-'))
}

function figure({ summary, conditions }: BenchDocument): string {
  const group = (label: string, ours: string, raw: string) => ({
    label,
    bars: [
      { name: 'queue', value: summary[ours] ?? 0 },
      { name: 'bare SQLite', value: summary[raw] ?? 0 },
    ],
  })
  return renderFigure({
    title: 'Durable enqueue',
    subtitle: `${conditions.cpu}; synchronous=FULL`,
    columns: 2,
    panels: [
      { kind: 'bars', title: 'One job a commit', yLabel: 'jobs/s', groups: [group('single', 'enqueuePerS', 'rawPerS')] },
      {
        kind: 'bars',
        title: 'Fifty jobs a commit',
        yLabel: 'jobs/s',
        groups: [group('batched', 'enqueueBatchedPerS', 'rawBatchedPerS')],
      },
    ],
  })
}

function page({ conditions, summary }: BenchDocument, goals: readonly string[][]): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return `# Queue

Made by \`${conditions.command} --save\` on ${conditions.startedAt} (commit ${conditions.commit ?? 'unknown'}); every round is in
[queue.json](queue.json).

${[['figure', 'measured', 'reach', ''], ['---', '---', '---', '---'], ...goals].map(row).join('\n')}

![Jobs a second](queue.svg)

## Conditions

${conditions.cpu}, ${conditions.cores} cores; SQLite with WAL and synchronous=FULL; load average
${Number(conditions.loadAverageBefore).toFixed(1)} before and ${Number(conditions.loadAverageAfter).toFixed(1)} after.

- *raw*: the bytes of our rows, prepared beforehand, in a table without an index, in the same run and in turn with ours.
- *life*: submitted, given away, accepted, begun, done, 50 jobs a commit: ${Math.round(summary.livesPerS ?? 0)} jobs/s.
  *slowdownAt100k* compares a database that holds ${conditions.finished} finished jobs with one that holds few.
- *dispatch*: from sending a job to the commit of its acceptance, measured by a bridge process; ${conditions.devices} devices are MQTT
  connections of the benchmark's own process that store each job before they accept it; ${conditions.jobs} jobs, one request each,
  ${conditions.perS} a second.
`
}
