import type { StepPace } from '../../cluster/cluster.ts'
import type { BenchDocument, Table } from '../../frame/bench.ts'
import { distinct, runsBy, select } from '../../frame/runs.ts'
import { maxOf, sum } from '../../frame/statistics.ts'
import { type Column, tableOf, toDigits, toPercent } from '../../frame/tables.ts'
import {
  type FigureName,
  medianOf,
  methodRatio,
  parallelOverSequential,
  prefixTokensSaved,
  reasonsOf,
  runsOf,
} from './figures.ts'
import { type MethodName, methodNames } from './methods.ts'
import { type Plan, paperLoad } from './plan.ts'
import type { Capacity, DeviceFigures, Measured, PiceRun } from './runs.ts'

export const capacityOf = ({ conditions }: BenchDocument) => conditions.capacity as Capacity
export const planOf = ({ conditions }: BenchDocument) => conditions.plan as Plan
export const machineOf = ({ conditions }: BenchDocument) => conditions.machine as StepPace
const devicesOf = ({ conditions }: BenchDocument) => conditions.devices as readonly DeviceFigures[]

/** The loads at which methods are compared, ascending. */
export const loadsOf = (runs: readonly PiceRun[]): number[] =>
  distinct(select(runs, { measured: 'compared' }), 'load').sort((a, b) => a - b)

export function tablesOf(document: BenchDocument): Table[] {
  const runs = runsOf(document)
  return [
    ...loadsOf(runs).map((load) => comparison(runs, load)),
    quality(runs),
    paperTable(runs),
    plans(runs),
    sensitivity(runs, 'queue length', 'expansions that may wait for each device'),
    sensitivity(runs, 'bandwidth', 'bytes/s of each link'),
    deviceTable(devicesOf(document)),
  ]
}

interface Runs {
  readonly runs: readonly PiceRun[]
}

/** The median over seeds. */
const median = (head: string, figure: FigureName, digits: number): Column<Runs> => [
  head,
  ({ runs }) => toDigits(medianOf(runs, figure), digits),
]
const share = (head: string, figure: FigureName): Column<Runs> => [head, ({ runs }) => toPercent(medianOf(runs, figure))]

interface MethodRuns extends Runs {
  readonly name: MethodName
}

const methodsAt = (runs: readonly PiceRun[], load: number): MethodRuns[] =>
  runsBy(select(runs, { measured: 'compared', load }), 'method', methodNames)

const methodColumn: Column<MethodRuns> = ['method', ({ name }) => name]

const overCloudOnly = (all: readonly PiceRun[], load: number, head: string, figure: FigureName): Column<MethodRuns> => [
  head,
  ({ name }) => toDigits(name === 'cloud-only' ? null : methodRatio(all, figure, [name, 'cloud-only'], load), 2),
]

function comparison(all: readonly PiceRun[], load: number): Table {
  const ofPaper = load === paperLoad ? ", the paper's 1.5" : ''
  return tableOf(
    `${load.toFixed(2)} times the cloud's capacity${ofPaper}: throughput and latency on the right are over cloud-only's`,
    methodsAt(all, load),
    [
      methodColumn,
      median('answers/min', 'answersPerMin', 1),
      median('mean s', 'latencyMeanS', 1),
      median('P95 s', 'latencyP95S', 1),
      median('first text s', 'ttftMeanS', 1),
      median('LLM tokens', 'cloudTokens', 0),
      median('device tokens', 'edgeTokens', 0),
      share('by sketch', 'sketched'),
      share('by device alone', 'byDevice'),
      share('answered', 'answered'),
      overCloudOnly(all, load, 'throughput', 'answersPerMin'),
      overCloudOnly(all, load, 'latency', 'latencyMeanS'),
      ['cores', ({ runs }) => toDigits(mostCores(runs), 2)],
      ['n', ({ runs }) => String(sum(runs.map(({ samples }) => samples.length)))],
    ],
  )
}

/** Of bridge and devices; null where a run does not report them. */
function mostCores(runs: readonly PiceRun[]): number | null {
  const cores = runs.map(({ bridgeCore, devicesCore }) => (bridgeCore ?? Number.NaN) + (devicesCore ?? Number.NaN))
  return cores.every(Number.isFinite) ? maxOf(cores) : null
}

const judged = ({ samples }: PiceRun) => samples.filter((sample) => sample.quality).length

/** Of the answers at the paper's load. */
const quality = (runs: readonly PiceRun[]): Table =>
  tableOf(
    `Quality of the answers at ${paperLoad.toFixed(2)} times the cloud's capacity, against the LLM's own full answers`,
    methodsAt(runs, paperLoad),
    [
      methodColumn,
      median('ROUGE-1 F', 'rouge1', 2),
      median('confidence', 'confidence', 2),
      median("LLM's perplexity", 'perplexity', 2),
      median('tokens', 'tokens', 0),
      ['n', (own) => String(sum(own.runs.map(judged)))],
    ],
  )

/** Table III of the paper, Llama3-70B, over cloud-only. */
const paper: Partial<Record<MethodName, { readonly throughput: number; readonly latency: number }>> = {
  'routing by difficulty': { throughput: 13.79 / 16.33, latency: 143.94 / 121.54 },
  PICE: { throughput: 25.98 / 16.33, latency: 75.15 / 121.54 },
}

const paperTable = (runs: readonly PiceRun[]): Table =>
  tableOf(
    "Over cloud-only, beside the paper's Llama3-70B (Table III)",
    methodsAt(runs, paperLoad).filter(({ name }) => name !== 'cloud-only'),
    [
      methodColumn,
      overCloudOnly(runs, paperLoad, 'throughput', 'answersPerMin'),
      ['paper', ({ name }) => toDigits(paper[name]?.throughput, 2)],
      overCloudOnly(runs, paperLoad, 'latency', 'latencyMeanS'),
      ['paper', ({ name }) => toDigits(paper[name]?.latency, 2)],
    ],
  )

/** What PICE's plans chose, by load. */
function plans(all: readonly PiceRun[]): Table {
  const own = select(all, { measured: 'compared', method: 'PICE' })
  const rows = loadsOf(own).map((load) => {
    const runs = select(own, { load })
    return { load, reasons: reasonsOf(runs), samples: runs.flatMap(({ samples }) => samples) }
  })
  const levels = [...new Set(rows.flatMap(({ samples }) => samples.flatMap(({ level }) => level ?? [])))].sort((a, b) => a - b)
  type Row = (typeof rows)[number]
  return tableOf("PICE's plans: sketches by level, answers in full by reason, and sentences that the LLM had to write", rows, [
    ['load', ({ load }) => load.toFixed(2)],
    ...levels.map(
      (level): Column<Row> => [
        `level ${level}`,
        ({ samples }) => String(samples.filter((sample) => sample.level === level).length),
      ],
    ),
    ...[...reasonsOf(own).keys()].map((reason): Column<Row> => [reason, ({ reasons }) => String(reasons.get(reason) ?? 0)]),
    ['sentences', ({ samples }) => String(sum(samples.map(({ sketchLines }) => sketchLines)))],
    ['by the LLM', ({ samples }) => String(sum(samples.map(({ completedSentences }) => completedSentences)))],
  ])
}

const sensitivity = (all: readonly PiceRun[], measured: Measured, head: string): Table =>
  tableOf(
    `PICE by ${measured}, at ${paperLoad.toFixed(2)} times the cloud's capacity`,
    select(all, { measured }).map((run) => ({ ...run, runs: [run] })),
    [
      [head, ({ setting }) => String(setting)],
      median('answers/min', 'answersPerMin', 1),
      median('mean s', 'latencyMeanS', 1),
      median('P95 s', 'latencyP95S', 1),
      share('by sketch', 'sketched'),
      ['n', ({ samples }) => String(samples.length)],
    ],
  )

const deviceTable = (devices: readonly DeviceFigures[]): Table =>
  tableOf('Ten sentences on one device: one job, and a job for each', devices, [
    ['sequences', ({ groups }) => String(groups)],
    ['prompt tokens', ({ promptTokens }) => String(promptTokens)],
    ['computed', ({ prefilledTokens }) => String(prefilledTokens)],
    ['saved', (figures) => toPercent(prefixTokensSaved(figures))],
    ['tokens/s in one job', ({ parallelTokens, parallelMs }) => toDigits((1_000 * parallelTokens) / parallelMs, 0)],
    ['in ten', ({ sequentialTokens, sequentialMs }) => toDigits((1_000 * sequentialTokens) / sequentialMs, 0)],
    ['ratio', (figures) => toDigits(parallelOverSequential(figures), 2)],
  ])
