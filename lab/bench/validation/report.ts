import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { measured, runsBy, select } from '../../frame/runs.ts'
import { maxOf, mean, medianOrNull } from '../../frame/statistics.ts'
import { type Column, tableOf, toPercent, toShort } from '../../frame/tables.ts'
import { type Metric, metrics, type ValidatedBench, type ValidationCell, validatedBenches } from './cells.ts'
import { fittedWorkload } from './tokenflow.ts'

export const validationReport: BenchReport = {
  title: 'The simulator against the live benchmarks',
  contents: 'every figure, measured and simulated',
  figureText: 'Error of the simulated figures of the median run, by benchmark',
  figure: (document) => ({
    title: 'Simulated against measured',
    subtitle: 'error of the median run, |simulated − measured| / measured',
    columns: 2,
    panels: benchesOf(document).map((bench) => ({
      kind: 'bars' as const,
      title: bench,
      yLabel: 'error',
      yMax: 0.3,
      groups: measured(metrics, (metric) => medianOrNull(errorsOf(document, bench, metric))).map(([label, value]) => ({
        label,
        bars: [{ name: 'median run', value }],
      })),
    })),
  }),
  tables: (document) => [overview(document), ...benchesOf(document).map((bench) => detail(document, bench))],
  findings,
  conditions,
}

const cellsIn = ({ runs }: BenchDocument) => runs as readonly ValidationCell[]
const benchesOf = (document: BenchDocument) => validatedBenches.filter((bench) => select(cellsIn(document), { bench }).length > 0)

const errorsOf = (document: BenchDocument, bench: ValidatedBench, metric: Metric) =>
  select(cellsIn(document), { bench, metric }).map(({ error }) => error)

function overview(document: BenchDocument): Table {
  const rows = benchesOf(document).flatMap((bench) =>
    metrics.map((metric) => ({ bench, metric, errors: errorsOf(document, bench, metric) })),
  )
  return tableOf(
    'Errors over runs',
    rows.filter(({ errors }) => errors.length > 0),
    [
      ['benchmark', ({ bench }) => bench],
      ['figure', ({ metric }) => metric],
      ['median', ({ errors }) => percent(medianOrNull(errors))],
      ['mean', ({ errors }) => percent(mean(errors))],
      ['worst', ({ errors }) => percent(maxOf(errors))],
      ['runs', ({ errors }) => String(errors.length)],
    ],
  )
}

function detail(document: BenchDocument, bench: ValidatedBench): Table {
  const runs = runsBy(select(cellsIn(document), { bench }), 'run')
  type Row = (typeof runs)[number]
  return tableOf(`${bench}: measured / simulated, ms and tokens/s`, runs, [
    ['run', ({ name }) => name],
    ...metrics.map((metric): Column<Row> => [metric, ({ runs: cells }) => shown(cells.find((cell) => cell.metric === metric))]),
  ])
}

const shown = (cell: ValidationCell | undefined) => (cell ? `${toShort(cell.measured, 3)} / ${toShort(cell.simulated, 3)}` : '–')
const percent = (share: number | null) => toPercent(share, 1)

function findings(document: BenchDocument): string {
  const worst = [...cellsIn(document)].sort((a, b) => b.error - a.error).slice(0, 3)
  return `- The figures of the summary are errors of the median run: half of the runs are predicted better. Farthest off are
  ${worst.map(({ bench, run, metric, error }) => `${bench}, ${run}: ${metric} (${percent(error)})`).join('; ')}.`
}

function conditions({ conditions: { fit } }: BenchDocument): string {
  const { medianError, p95Error } = fit as { medianError: number; p95Error: number }
  return `Nothing is measured here: the documents of the live benchmarks in docs/results are predicted, each run with its own requests,
lengths, devices and links, by the simulator with the live policies.

- The machine is fitted to the steps in HAT's document by \`brim simulate calibrate\` (|error| of the median step ${percent(medianError)}, of the 95th
  of 100 ${percent(p95Error)}). Agents compute as fast as the bridge.
- HAT: links are drawn again with the run's seed. Given are the lengths of answers and the accept lengths of the run's looping and other
  answers, which depend on texts; sockets and processes add 2 ms to each round trip.
- TokenFlow: the time per stream of a step follows from the saturated throughput that the benchmark measures before its runs. Three
  constants are fitted on "${fittedWorkload}", which is left out of the errors: 4 ms of the core per request, twice the time for rows of
  whole answers, and copies between the KV tiers at 200 MB/s.
- PICE: cloud and devices have the emulated pace of that benchmark, and the bridge what it needed beside it for one answer and for
  full steps. Which answers a router gives to devices is taken over. The loads of one run each hold 64 requests.
- DiSCo: that benchmark replays its live answers itself, with the latencies that they had, by the sides that the simulator has.
- P95 is over the answers of a run. Throughput is over the time from the first request to the last token.`
}
