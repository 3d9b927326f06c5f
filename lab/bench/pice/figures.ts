import { quantile } from '../../../core/policy/estimate/quantile.ts'
import type { Summary } from '../../frame/bench.ts'
import { mean, medianOrNull, sum } from '../../frame/statistics.ts'
import type { MethodName } from './methods.ts'
import { halfLoad, overload, paperLoad } from './plan.ts'
import type { DeviceFigures, Measured, PiceRun } from './runs.ts'

/** Figures of one run; null where no answer came. */
export interface RunFigures {
  /** From the first request to the last answer. */
  readonly answersPerMin: number | null
  readonly latencyMeanS: number | null
  readonly latencyP95S: number | null
  readonly ttftMeanS: number | null
  /** Share of the requests. */
  readonly answered: number | null
  readonly sketched: number | null
  readonly byDevice: number | null
  /** Generated tokens per answer. */
  readonly cloudTokens: number | null
  readonly edgeTokens: number | null
  /** Of an answer, in the LLM's vocabulary. */
  readonly tokens: number | null
  readonly rouge1: number | null
  readonly confidence: number | null
  /** Of the answers under the LLM: 2 to the power of the mean over answers of −(1/N) Σ log2 p. */
  readonly perplexity: number | null
}

export type FigureName = keyof RunFigures

export function figuresOf({ samples }: Pick<PiceRun, 'samples'>): RunFigures {
  const done = samples.flatMap((sample) =>
    sample.error === null && sample.tookMs !== null ? [{ ...sample, tookMs: sample.tookMs }] : [],
  )
  const latencies = done.map(({ tookMs }) => tookMs / 1_000)
  const spanMs = Math.max(...done.map(({ atMs, tookMs }) => atMs + tookMs)) - Math.min(...samples.map(({ atMs }) => atMs))
  const qualities = done.flatMap(({ quality }) => quality ?? [])
  const share = (count: number) => (samples.length === 0 ? null : count / samples.length)
  const log2 = mean(qualities.map(({ meanLog2Probability }) => meanLog2Probability))
  return {
    answersPerMin: done.length === 0 ? null : (60_000 * done.length) / spanMs,
    latencyMeanS: mean(latencies),
    latencyP95S: latencies.length === 0 ? null : quantile(latencies, 0.95),
    ttftMeanS: mean(done.flatMap(({ ttftMs }) => (ttftMs === null ? [] : [ttftMs / 1_000]))),
    answered: share(done.length),
    sketched: share(done.filter(({ by }) => by === 'sketch').length),
    byDevice: share(done.filter(({ by }) => by === 'device').length),
    cloudTokens: mean(done.map(({ cloudTokens }) => cloudTokens)),
    edgeTokens: mean(done.map(({ edgeTokens }) => edgeTokens)),
    tokens: mean(done.flatMap(({ tokens }) => tokens ?? [])),
    rouge1: mean(qualities.map((quality) => quality.rouge1)),
    confidence: mean(qualities.map((quality) => quality.confidence)),
    perplexity: log2 === null ? null : 2 ** -log2,
  }
}

interface Wanted {
  readonly measured?: Measured
  readonly method?: MethodName
  readonly load?: number
  readonly setting?: number
}

/** The runs that match. */
export function select(runs: readonly PiceRun[], wanted: Wanted): PiceRun[] {
  const keys = Object.entries(wanted) as [keyof Wanted, string | number][]
  return runs.filter((run) => keys.every(([key, value]) => run[key] === value))
}

/** The median over seeds; null without runs. */
export function medianOf(runs: readonly PiceRun[], figure: FigureName): number | null {
  return medianOrNull(runs.flatMap((run) => figuresOf(run)[figure] ?? []))
}

/** A figure of a method over another's, at the same load with the same seed: the median over seeds. */
export function ratioOf(
  runs: readonly PiceRun[],
  figure: FigureName,
  [own, other]: readonly [MethodName, MethodName],
  load: number,
): number | null {
  const ratios = select(runs, { measured: 'compared', method: own, load }).flatMap((run) => {
    const beside = select(runs, { measured: 'compared', method: other, load }).find(({ seed }) => seed === run.seed)
    const [a, b] = [figuresOf(run)[figure], beside ? figuresOf(beside)[figure] : null]
    return a === null || b === null || b === 0 ? [] : [a / b]
  })
  return medianOrNull(ratios)
}

/** The summary: goals first, at the paper's load unless their names say otherwise. */
export function summarise(runs: readonly PiceRun[], devices: readonly DeviceFigures[]): Summary {
  const over = (figure: FigureName, other: MethodName, load = paperLoad) => ratioOf(runs, figure, ['PICE', other], load)
  const samples = runs.flatMap((run) => run.samples)
  const own = select(runs, { measured: 'compared', method: 'PICE', load: paperLoad })
  return {
    throughputOverCloudOnly: over('answersPerMin', 'cloud-only'),
    latencyOverCloudOnly: over('latencyMeanS', 'cloud-only'),
    latencyAtHalfLoad: over('latencyMeanS', 'cloud-only', halfLoad),
    dynamicOverStatic: over('answersPerMin', 'PICE static'),
    prefixTokensSaved: medianOrNull(devices.map(prefixTokensSaved)),
    parallelOverSequential: medianOrNull(devices.map(parallelOverSequential)),
    answered: samples.length === 0 ? null : samples.filter(({ error }) => error === null).length / samples.length,
    throughputOverCloudOnlyAt15: over('answersPerMin', 'cloud-only', overload),
    latencyOverCloudOnlyAt15: over('latencyMeanS', 'cloud-only', overload),
    latencyP95OverCloudOnly: over('latencyP95S', 'cloud-only'),
    throughputOverRouting: over('answersPerMin', 'routing by difficulty'),
    latencyOverStatic: over('latencyMeanS', 'PICE static'),
    cloudTokensOverCloudOnly: over('cloudTokens', 'cloud-only'),
    sketched: medianOf(own, 'sketched'),
    rouge1: medianOf(own, 'rouge1'),
    perplexityOverCloudOnly: over('perplexity', 'cloud-only'),
  }
}

/** Share of the prompts' positions that were not computed because groups share their beginning. */
export const prefixTokensSaved = ({ prefilledTokens, promptTokens }: DeviceFigures): number => 1 - prefilledTokens / promptTokens

/** Tokens per second of ten sentences in one job over those of a job for each. */
export function parallelOverSequential({ parallelMs, parallelTokens, sequentialMs, sequentialTokens }: DeviceFigures): number {
  return parallelTokens / parallelMs / (sequentialTokens / sequentialMs)
}

/** Sums of the reasons why the LLM answered in full. */
export function reasonsOf(runs: readonly PiceRun[]): ReadonlyMap<string, number> {
  const reasons = runs.flatMap(({ samples }) => samples.filter(({ by }) => by === 'cloud').map(({ reason }) => reason ?? 'none'))
  return new Map([...new Set(reasons)].sort().map((reason) => [reason, sum(reasons.map((each) => (each === reason ? 1 : 0)))]))
}
