import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import type { Figure } from '../../plot/plot.ts'

export const queueReport: BenchReport = {
  title: 'Job queue',
  contents: 'every round',
  figure,
  figureText: 'Jobs per second, queue and bare SQLite',
  conditions(document) {
    const { conditions, summary } = document
    return `${conditions.cpu}, ${conditions.cores} cores; SQLite with WAL and synchronous=FULL; ${loadText(document)}.

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
  (\`chrt -f 10\`), it was 2.1 ms.`
  },
}

function figure({ summary, conditions }: BenchDocument): Figure {
  const panel = (title: string, label: string, queue: string, sqlite: string) => {
    const bars = [
      { name: 'queue', value: summary[queue] ?? 0 },
      { name: 'bare SQLite', value: summary[sqlite] ?? 0 },
    ]
    return { kind: 'bars' as const, title, yLabel: 'jobs/s', groups: [{ label, bars }] }
  }
  return {
    title: 'Durable enqueue',
    subtitle: `${conditions.cpu}; synchronous=FULL`,
    columns: 2,
    panels: [
      panel('One job per commit', 'single', 'enqueuePerS', 'rawPerS'),
      panel(`${conditions.batch} jobs per commit`, 'batched', 'enqueueBatchedPerS', 'rawBatchedPerS'),
    ],
  }
}
