import type { StepPace } from '../../cluster/cluster.ts'
import type { BenchDocument, Table } from '../../frame/bench.ts'
import { type FigureName, medianOf, parallelOverSequential, prefixTokensSaved, ratioOf, reasonsOf, select } from './figures.ts'
import { type MethodName, methodNames } from './methods.ts'
import { type Plan, paperLoad } from './plan.ts'
import type { Capacity, DeviceFigures, Measured, PiceRun } from './runs.ts'

export const runsOf = ({ runs }: BenchDocument) => runs as readonly PiceRun[]
export const capacityOf = ({ conditions }: BenchDocument) => conditions.capacity as Capacity
export const planOf = ({ conditions }: BenchDocument) => conditions.plan as Plan
export const machineOf = ({ conditions }: BenchDocument) => conditions.machine as StepPace
export const devicesOf = ({ conditions }: BenchDocument) => conditions.devices as readonly DeviceFigures[]

/** The loads at which methods are compared, ascending. */
export const loadsOf = (runs: readonly PiceRun[]): number[] =>
  [...new Set(select(runs, { measured: 'compared' }).map(({ load }) => load))].sort((a, b) => a - b)

export const tablesOf = (document: BenchDocument): Table[] => {
  const runs = runsOf(document)
  const tables = [
    ...loadsOf(runs).map((load) => comparison(runs, load)),
    quality(runs),
    paperTable(runs),
    plans(runs),
    sensitivity(runs, 'queue length', 'expansions that may wait for each device'),
    sensitivity(runs, 'bandwidth', 'bytes/s of each link'),
    deviceTable(devicesOf(document)),
  ]
  return tables.filter(({ rows }) => rows.length > 0)
}

const written = (value: number | null | undefined, digits = 1) => (value == null ? '–' : value.toFixed(digits))
const percent = (share: number | null) => (share === null ? '–' : `${(100 * share).toFixed(0)} %`)

/** Methods that have runs, in the order of the table of methods. */
const methodsIn = (runs: readonly PiceRun[]): MethodName[] =>
  methodNames.filter((name) => runs.some(({ method }) => method === name))

function comparison(runs: readonly PiceRun[], load: number): Table {
  const own = select(runs, { measured: 'compared', load })
  const over = (method: MethodName, figure: FigureName) =>
    written(method === 'cloud-only' ? null : ratioOf(own, figure, [method, 'cloud-only'], load), 2)
  return {
    title: `${load.toFixed(2)} times the cloud's capacity${load === paperLoad ? ", the paper's 1.5" : ''}: throughput and latency on the right are over cloud-only's`,
    head: [
      'method',
      'answers/min',
      'mean s',
      'P95 s',
      'first text s',
      'LLM tokens',
      'device tokens',
      'by sketch',
      'by device alone',
      'answered',
      'throughput',
      'latency',
      'cores',
      'n',
    ],
    rows: methodsIn(own).map((method) => {
      const these = select(own, { method })
      const figure = (name: FigureName) => medianOf(these, name)
      const cores = these.map(({ bridgeCore, devicesCore }) => (bridgeCore ?? Number.NaN) + (devicesCore ?? Number.NaN))
      return [
        method,
        written(figure('answersPerMin')),
        written(figure('latencyMeanS')),
        written(figure('latencyP95S')),
        written(figure('ttftMeanS')),
        written(figure('cloudTokens'), 0),
        written(figure('edgeTokens'), 0),
        percent(figure('sketched')),
        percent(figure('byDevice')),
        percent(figure('answered')),
        over(method, 'answersPerMin'),
        over(method, 'latencyMeanS'),
        cores.every(Number.isFinite) ? written(Math.max(...cores), 2) : '–',
        String(these.reduce((sum, { samples }) => sum + samples.length, 0)),
      ]
    }),
  }
}

/** Of the answers at the paper's load. */
function quality(runs: readonly PiceRun[]): Table {
  const own = select(runs, { measured: 'compared', load: paperLoad })
  return {
    title: `Quality of the answers at ${paperLoad.toFixed(2)} times the cloud's capacity, against the LLM's own full answers`,
    head: ['method', 'ROUGE-1 F', 'confidence', "LLM's perplexity", 'tokens', 'n'],
    rows: methodsIn(own).map((method) => {
      const these = select(own, { method })
      return [
        method,
        written(medianOf(these, 'rouge1'), 2),
        written(medianOf(these, 'confidence'), 2),
        written(medianOf(these, 'perplexity'), 2),
        written(medianOf(these, 'tokens'), 0),
        String(these.reduce((sum, { samples }) => sum + samples.filter((sample) => sample.quality).length, 0)),
      ]
    }),
  }
}

/** Table III of the paper, Llama3-70B, over cloud-only: throughput and latency. */
const paper: Partial<Record<MethodName, readonly [throughput: number, latency: number]>> = {
  'routing by difficulty': [13.79 / 16.33, 143.94 / 121.54],
  PICE: [25.98 / 16.33, 75.15 / 121.54],
}

function paperTable(runs: readonly PiceRun[]): Table {
  const over = (method: MethodName, figure: FigureName) => written(ratioOf(runs, figure, [method, 'cloud-only'], paperLoad), 2)
  const measured = methodsIn(select(runs, { measured: 'compared', load: paperLoad })).filter((method) => method !== 'cloud-only')
  return {
    title: "Over cloud-only, beside the paper's Llama3-70B (Table III)",
    head: ['method', 'throughput', 'paper', 'latency', 'paper'],
    rows: measured.map((method) => {
      const [throughput, latency] = paper[method] ?? [null, null]
      return [method, over(method, 'answersPerMin'), written(throughput, 2), over(method, 'latencyMeanS'), written(latency, 2)]
    }),
  }
}

/** What PICE's plans chose, by load. */
function plans(runs: readonly PiceRun[]): Table {
  const own = select(runs, { measured: 'compared', method: 'PICE' })
  const byLoad = loadsOf(own).map((load) => ({ load, these: select(own, { load }) }))
  const reasons = [...new Set(byLoad.flatMap(({ these }) => [...reasonsOf(these).keys()]))].sort()
  const levels = [...new Set(own.flatMap(({ samples }) => samples.flatMap(({ level }) => level ?? [])))].sort((a, b) => a - b)
  return {
    title: "PICE's plans: sketches by level, answers in full by reason, and sentences that the LLM had to write",
    head: ['load', ...levels.map((level) => `level ${level}`), ...reasons, 'sentences', 'by the LLM'],
    rows: byLoad.map(({ load, these }) => {
      const samples = these.flatMap((run) => run.samples)
      const total = (what: 'sketchLines' | 'completedSentences') => samples.reduce((sum, sample) => sum + sample[what], 0)
      return [
        load.toFixed(2),
        ...levels.map((level) => String(samples.filter((sample) => sample.level === level).length)),
        ...reasons.map((reason) => String(reasonsOf(these).get(reason) ?? 0)),
        String(total('sketchLines')),
        String(total('completedSentences')),
      ]
    }),
  }
}

function sensitivity(runs: readonly PiceRun[], measured: Measured, setting: string): Table {
  const own = select(runs, { measured })
  return {
    title: `PICE by ${measured}, at ${paperLoad.toFixed(2)} times the cloud's capacity`,
    head: [setting, 'answers/min', 'mean s', 'P95 s', 'by sketch', 'n'],
    rows: own.map((run) => [
      String(run.setting),
      written(medianOf([run], 'answersPerMin')),
      written(medianOf([run], 'latencyMeanS')),
      written(medianOf([run], 'latencyP95S')),
      percent(medianOf([run], 'sketched')),
      String(run.samples.length),
    ]),
  }
}

function deviceTable(devices: readonly DeviceFigures[]): Table {
  return {
    title: 'Ten sentences on one device: one job, and a job for each',
    head: ['sequences', 'prompt tokens', 'computed', 'saved', 'tokens/s in one job', 'in ten', 'ratio'],
    rows: devices.map((figures) => [
      String(figures.groups),
      String(figures.promptTokens),
      String(figures.prefilledTokens),
      percent(prefixTokensSaved(figures)),
      written((1_000 * figures.parallelTokens) / figures.parallelMs, 0),
      written((1_000 * figures.sequentialTokens) / figures.sequentialMs, 0),
      written(parallelOverSequential(figures), 2),
    ]),
  }
}
