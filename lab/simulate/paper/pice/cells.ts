import type { BenchDocument } from '../../../frame/bench.ts'
import { modelBytes } from '../../device/small-model-step.ts'
import { headOf, wholeModel } from '../../hardware/model-shape.ts'
import { gpuNamed } from '../../hardware/presets/gpus.ts'
import { modelNamed } from '../../hardware/presets/models.ts'
import { headS, stepS, together, workOf } from '../../hardware/roofline.ts'
import { explained, type PaperCell, written } from '../comparison.ts'
import { published, publishedOf } from './published.ts'
import type { Run } from './runs.ts'
import {
  edgeShare,
  type Measured,
  type Method,
  moreQuestions,
  questions,
  routersModel,
  type Setting,
  studied,
  tableRpm,
} from './settings.ts'

export const runsOf = ({ runs }: Pick<BenchDocument, 'runs'>) => runs as readonly Run[]

export const select = (runs: readonly Run[], wanted: Partial<Setting>): readonly Run[] =>
  runs.filter((run) => Object.entries(wanted).every(([key, value]) => run[key as keyof Run] === value))

/** @throws RangeError where there is no such run */
export function runOf(runs: readonly Run[], measured: Measured, method: Method, wanted: Partial<Setting> = {}): Run {
  const [run] = select(runs, { measured, method, model: studied, ...wanted })
  if (!run) throw new RangeError(`no run of ${method} (${measured})`)
  return run
}

export function cellsOf(document: Pick<BenchDocument, 'runs'>): PaperCell[] {
  const runs = runsOf(document)
  return [
    ...speedCells(),
    ...tableCells(runs),
    ...schedulingCells(runs),
    ...loadCells(runs),
    ...queueCells(runs),
    ...bandwidthCells(runs),
  ]
}

/** Table I: the roofline of one stream. The paper names two A100; its figures are those of one where a model fits into one. */
function speedCells(): PaperCell[] {
  const gpu = gpuNamed('a100-80')
  return published.map(({ title, model, tokensPerS }) => {
    const shape = modelNamed(model)
    const hardware = together(gpu, modelBytes(shape) < gpu.memoryBytes ? 1 : 2)
    const ours = 1 / (stepS(hardware, wholeModel(shape), workOf(1, 256)) + headS(hardware, headOf(shape), 1))
    return { place: 'Table I', row: title, metric: 'speed', paper: tokensPerS, ours, unit: 'tokens/s' }
  })
}

const methodKeys = { 'cloud-only': 'cloud', 'edge-only': 'local', routing: 'routing', PICE: 'pice' } as const

function tableCells(runs: readonly Run[]): PaperCell[] {
  return published.flatMap((row) =>
    (['cloud-only', 'edge-only', 'routing', 'PICE'] as const).flatMap((method): PaperCell[] => {
      const paper = row[methodKeys[method]]
      if (!paper) return []
      const run = runOf(runs, 'table', method, { model: row.model })
      const brim = method === 'PICE' ? runOf(runs, 'table', 'Brim', { model: row.model }) : undefined
      const cell = (metric: string, published: number, value: (run: Run) => number, unit: string) => {
        const made = { place: 'Table III', row: `${row.title}, ${method}`, metric, paper: published, ours: value(run), unit }
        const remark =
          method === 'routing'
            ? routingRemark(runs, row.model, paper)
            : method === 'PICE'
              ? piceRemark(runs, row.model, metric)
              : undefined
        return explained(brim ? { ...made, improved: value(brim) } : made, remark)
      }
      return [
        cell('throughput', paper[0], ({ answersPerMin }) => answersPerMin, 'queries/min'),
        cell('latency', paper[1], ({ latencyS }) => latencyS, 's'),
      ]
    }),
  )
}

/** The router that comes nearest to both of the paper's figures, of those that were tried. */
function routingRemark(runs: readonly Run[], model: string, [answersPerMin, latencyS]: readonly [number, number]): string {
  const tried = [...select(runs, { measured: 'cause', method: 'routing', model }), runOf(runs, 'table', 'routing', { model })]
  const distance = (run: Run) =>
    Math.max(Math.abs(Math.log(run.answersPerMin / answersPerMin)), Math.abs(Math.log(run.latencyS / latencyS)))
  const {
    edgeShare: share = edgeShare,
    router = routersModel(model),
    ...nearest
  } = tried.reduce((best, run) => (distance(run) < distance(best) ? run : best))
  return (
    `of the router’s threshold, its small model and the number of questions, which the paper does not state: of ${tried.length} that were tried, ` +
    `${Math.round(100 * share)} % of ${nearest.requests ?? questions} questions to ${router} come nearest to both figures, ` +
    `with ${written(nearest.answersPerMin)}/min and ${written(nearest.latencyS)} s`
  )
}

function piceRemark(runs: readonly Run[], model: string, metric: string): string {
  const more = runOf(runs, 'cause', 'PICE', { model, requests: moreQuestions })
  if (metric === 'throughput')
    return `of the number of questions, the last of which ends the measurement: with ${moreQuestions} of them ${written(more.answersPerMin)}/min`
  return `of the number of questions, which the paper does not state, as more arrive than are answered: with ${moreQuestions} of them ${written(more.latencyS)} s`
}

/** Fig. 6 (a): what dynamic scheduling gains. */
function schedulingCells(runs: readonly Run[]): PaperCell[] {
  const [cloud, fixed, pice, brim] = (['cloud-only', 'PICE static', 'PICE', 'Brim'] as const).map((method) =>
    runOf(runs, 'table', method),
  )
  const place = 'Fig. 6'
  return [
    explained(
      {
        place,
        row: 'PICE over static scheduling',
        metric: 'throughput',
        paper: 1.5,
        ours: pice!.answersPerMin / fixed!.answersPerMin,
        improved: brim!.answersPerMin / fixed!.answersPerMin,
        unit: '×',
      },
      staticRemark(runs),
    ),
    explained(
      {
        place,
        row: 'static scheduling over cloud-only',
        metric: 'throughput',
        paper: null,
        ours: fixed!.answersPerMin / cloud!.answersPerMin,
        unit: '×',
      },
      'the paper: “modestly improves”',
    ),
    explained(
      {
        place,
        row: 'PICE over static scheduling',
        metric: 'latency',
        paper: null,
        ours: pice!.latencyS / fixed!.latencyS,
        improved: brim!.latencyS / fixed!.latencyS,
        unit: '×',
      },
      'the paper: “significantly reduces”',
    ),
  ]
}

/** The rule whose throughput comes nearest to what the paper's must have been. */
function staticRemark(runs: readonly Run[]): string {
  const answersPerMin = publishedOf(studied).pice[0] / 1.5
  const tried = select(runs, { measured: 'cause', method: 'PICE static' })
  const distance = (run: Run) => Math.abs(Math.log(run.answersPerMin / answersPerMin))
  const nearest = tried.reduce((best, run) => (distance(run) < distance(best) ? run : best))
  const over = (run: Run, method: Method) => written(runOf(runs, 'table', method).answersPerMin / run.answersPerMin)
  return (
    'of the predefined rules of static scheduling, which the paper does not state: this project sketches every answer of 64 tokens or more, ' +
    `and four devices keep up. With answers of ${nearest.minTokens} tokens or more alone it has ${written(nearest.answersPerMin)}/min and ${written(nearest.latencyS)} s, of which PICE ` +
    `has ${over(nearest, 'PICE')} times and Brim ${over(nearest, 'Brim')} times the throughput`
  )
}

/** Fig. 12: curves without numbers, and what the text says of them. */
function loadCells(runs: readonly Run[]): PaperCell[] {
  const place = 'Fig. 12'
  const at = (method: Method, rpm: number) => runOf(runs, 'load', method, { rpm })
  const rpms = [...new Set(select(runs, { measured: 'load' }).map(({ rpm }) => rpm))]
  const over = (rpm: number, method: Method, value: (run: Run) => number) => value(at(method, rpm)) / value(at('cloud-only', rpm))
  const ratios = rpms.flatMap((rpm): PaperCell[] => {
    const paper = rpm <= 20 ? 1 : null
    const cell = (metric: string, value: (run: Run) => number): PaperCell => ({
      place,
      row: `RPM ${rpm}, PICE over cloud-only`,
      metric,
      paper: metric === 'throughput' ? paper : null,
      ours: over(rpm, 'PICE', value),
      improved: over(rpm, 'Brim', value),
      unit: '×',
    })
    return [cell('throughput', ({ answersPerMin }) => answersPerMin), cell('latency', ({ latencyS }) => latencyS)]
  })
  const last = Math.max(...rpms)
  const flat = {
    place,
    row: `cloud-only, RPM ${last} over 20`,
    metric: 'throughput',
    paper: 1,
    ours: at('cloud-only', last).answersPerMin / at('cloud-only', 20).answersPerMin,
    unit: '×',
  }
  const grows = {
    place,
    row: `PICE, RPM ${last} over 20`,
    metric: 'throughput',
    paper: null,
    ours: at('PICE', last).answersPerMin / at('PICE', 20).answersPerMin,
    improved: at('Brim', last).answersPerMin / at('Brim', 20).answersPerMin,
    unit: '×',
  }
  return [
    ...ratios,
    explained(flat, 'at RPM 20 the cloud is not full all the time'),
    explained(
      grows,
      'the paper: “continues to enhance throughput”; here Eq. 2 as printed adds the queue to the time of the sketch, and refuses sketches that this project’s plans take',
    ),
  ]
}

/** Fig. 13. */
function queueCells(runs: readonly Run[]): PaperCell[] {
  const place = 'Fig. 13'
  const own = select(runs, { measured: 'queue', method: 'PICE' })
  const best = (method: Method) =>
    select(runs, { measured: 'queue', method }).reduce((a, b) => (b.answersPerMin > a.answersPerMin ? b : a)).queue!
  const spread =
    Math.min(...own.map(({ answersPerMin }) => answersPerMin)) / Math.max(...own.map(({ answersPerMin }) => answersPerMin))
  const values = own.map(
    (run): PaperCell => ({
      place,
      row: `queue length ${run.queue}`,
      metric: 'throughput',
      paper: null,
      ours: run.answersPerMin,
      improved: runOf(runs, 'queue', 'Brim', { queue: run.queue! }).answersPerMin,
      unit: 'queries/min',
    }),
  )
  return [
    explained(
      { place, row: 'best queue length', metric: 'expansions', paper: 4, ours: best('PICE'), improved: best('Brim'), unit: '' },
      `throughput differs by no more than ${Math.round(100 * (1 - spread))} % between all lengths: Eq. 2 refuses what would wait too long before the bound does`,
    ),
    ...values,
  ]
}

/** Fig. 14: "latency shows minimal variation". */
function bandwidthCells(runs: readonly Run[]): PaperCell[] {
  const rates = [...new Set(select(runs, { measured: 'bandwidth' }).map(({ mbitPerS }) => mbitPerS!))]
  const [low, high] = [Math.min(...rates), Math.max(...rates)]
  return (['cloud-only', 'routing', 'PICE'] as const).map((method) => {
    const over = (of: Method) =>
      runOf(runs, 'bandwidth', of, { mbitPerS: low }).latencyS / runOf(runs, 'bandwidth', of, { mbitPerS: high }).latencyS
    const cell: PaperCell = {
      place: 'Fig. 14',
      row: `${method}, ${low} over ${high} Mbit/s`,
      metric: 'latency',
      paper: 1,
      ours: over(method),
      unit: '×',
    }
    return method === 'PICE' ? { ...cell, improved: over('Brim') } : cell
  })
}

/** Gains over cloud-only in Table III. @returns throughput × and share of the latency cut */
export function gainOf(runs: readonly Run[], method: 'PICE' | 'Brim', model: string) {
  const [own, cloud] = [
    runOf(runs, 'table', method, { model, rpm: tableRpm(model) }),
    runOf(runs, 'table', 'cloud-only', { model }),
  ]
  return { throughput: own.answersPerMin / cloud.answersPerMin, latencyCut: 1 - own.latencyS / cloud.latencyS }
}
