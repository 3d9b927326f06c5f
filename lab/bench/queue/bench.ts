import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { loadText } from '../../frame/page.ts'
import { barPanel } from '../../frame/panels.ts'
import { medianOrNull } from '../../frame/statistics.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { benchDispatch, type DispatchRun } from './dispatch.ts'
import { batchSize, benchEnqueue, benchFinished, type LifeRound, type StoreRound } from './store.ts'

type QueueRun = StoreRound | LifeRound | DispatchRun

/** The median over the rounds of enqueueing. */
const ofRounds = (what: StoreRound['what'], of: (round: StoreRound) => number) => (runs: readonly QueueRun[]) =>
  medianOrNull(runs.flatMap((run) => (run.what === what ? [of(run)] : [])))

const ofLives = (of: (life: LifeRound) => number) => (runs: readonly QueueRun[]) =>
  medianOrNull(runs.flatMap((run) => (run.what === 'life' ? [of(run)] : [])))

const ofDispatch = (name: 'p50Ms' | 'p99Ms' | 'deviceCommitP50Ms') => (runs: readonly QueueRun[]) =>
  runs.find((run) => run.what === 'dispatch')?.[name] ?? null

const overRaw = ({ oursMs, rawMs }: StoreRound) => rawMs / oursMs
const oursPerS = ({ jobs, oursMs }: StoreRound) => (1_000 * jobs) / oursMs
const rawPerS = ({ jobs, rawMs }: StoreRound) => (1_000 * jobs) / rawMs

export const queueBench = tabledBench<QueueRun>({
  name: 'queue',
  title: 'Job queue',
  contents: 'every round',
  figureText: 'Jobs per second, queue and bare SQLite',
  quickRepetitions: 2,
  figures: {
    enqueueOverRaw: [ofRounds('enqueue', overRaw), { min: 0.8 }],
    enqueueBatchedOverRaw: [ofRounds('enqueueBatched', overRaw), { min: 0.8 }],
    enqueuePerS: [ofRounds('enqueue', oursPerS)],
    rawPerS: [ofRounds('enqueue', rawPerS)],
    enqueueBatchedPerS: [ofRounds('enqueueBatched', oursPerS)],
    rawBatchedPerS: [ofRounds('enqueueBatched', rawPerS)],
    livesPerS: [ofLives(({ jobs, emptyMs }) => (1_000 * jobs) / emptyMs)],
    slowdownAt100k: [ofLives(({ emptyMs, fullMs }) => fullMs / emptyMs), { max: 1.1 }],
    dispatchP50Ms: [ofDispatch('p50Ms'), { max: 5 }],
    dispatchP99Ms: [ofDispatch('p99Ms'), { max: 20 }],
    dispatchDeviceCommitP50Ms: [ofDispatch('deviceCommitP50Ms')],
  },
  measure: async (context) => measureQueue(context.quick ? quick : full, await ensureDemoBundle(), context),
  show(document) {
    const { conditions, summary } = document
    const panel = (title: string, label: string, queue: string, sqlite: string) =>
      barPanel(title, 'jobs/s', [
        [label, 'queue', summary[queue] ?? null],
        [label, 'bare SQLite', summary[sqlite] ?? null],
      ])
    return {
      figure: {
        title: 'Durable enqueue',
        subtitle: `${conditions.cpu}; synchronous=FULL`,
        columns: 2,
        panels: [
          panel('One job per commit', 'single', 'enqueuePerS', 'rawPerS'),
          panel(`${conditions.batch} jobs per commit`, 'batched', 'enqueueBatchedPerS', 'rawBatchedPerS'),
        ],
      },
      conditions: `${conditions.cpu}, ${conditions.cores} cores; SQLite with WAL and synchronous=FULL; ${loadText(document)}.

- *raw* is bare SQLite: the bytes of the queue's rows, prepared beforehand, written to a table without an index. Both
  write in turn, in the same run.
- *life* is a job from submission to result, ${conditions.batch} jobs per commit: ${Math.round(summary.livesPerS ?? 0)} jobs/s.
  *slowdownAt100k* compares a database that holds ${conditions.finished} finished jobs with one that holds few.
- *dispatch* is the time from sending a job to the commit of its acceptance, measured by a bridge process. The
  ${conditions.devices} devices are MQTT connections of the benchmark's process, which store each job before they accept it.
  ${conditions.jobs} jobs are submitted, one per request, ${conditions.perS} per second. *dispatchDeviceCommitP50Ms* is the part
  in which the device stores a job.
- Beside other processes a dispatch waits for a core, each time that the bridge or a device has something to do: at a load average
  of 10 its median was 34 to 92 ms, of which the device's commit took 1 ms; beside the same load, but with real-time priority
  (\`chrt -f 10\`), it was 2.1 ms.`,
    }
  },
})

export const command = benchCommand(queueBench)

interface Effort {
  readonly rounds: number
  /** Of each round, and of the dispatch. */
  readonly jobs: number
  /** Jobs in the full database. */
  readonly finished: number
  readonly devices: number
  /** Submissions per second to the bridge. */
  readonly perS: number
}

const full: Effort = { rounds: 15, jobs: 4_000, finished: 100_000, devices: 200, perS: 100 }
const quick: Effort = { ...full, rounds: 5, jobs: 1_000 }

export async function measureQueue(effort: Effort, bundle: string, { progress, io }: BenchContext) {
  const { finished, devices, jobs, perS } = effort
  // Below the project's folder, which is on a disk; the system's temporary folder may be in memory.
  const cache = fileURLToPath(new URL('.cache/', projectRoot))
  mkdirSync(cache, { recursive: true })
  const dir = mkdtempSync(join(cache, 'bench-queue-'))
  try {
    const rounds = benchEnqueue(dir, effort, progress)
    const lives = benchFinished(dir, effort, progress)
    const dispatch = await benchDispatch({ bundle, dir, devices, jobs, perS }, io, progress)
    const database = { synchronous: 'FULL', journal: 'WAL', batch: batchSize }
    return { conditions: { ...database, finished, devices, jobs, perS }, runs: [...rounds, ...lives, dispatch] }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
