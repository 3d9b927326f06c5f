import type { BenchDocument } from '../../frame/bench.ts'
import type { SummaryFigures } from '../../frame/figures.ts'
import { figuresOver, select } from '../../frame/runs.ts'
import { groupBy, mean, medianOrNull, over, quantileOrNull } from '../../frame/statistics.ts'
import type { MethodName } from './methods.ts'
import { halfLoad, overload, paperLoad } from './plan.ts'
import { type RubbishRun, rubbishShare } from './rubbish-device.ts'
import type { DeviceFigures, PiceRun } from './runs.ts'
import { overAlone, type SilentDeviceRun } from './silent-device.ts'

export const runsOf = ({ runs }: Pick<BenchDocument, 'runs'>) => runs as readonly PiceRun[]

/** Figures of one run; null where no answer came. */
export function figuresOf({ samples }: Pick<PiceRun, 'samples'>) {
  const done = samples.flatMap((sample) =>
    sample.error === null && sample.tookMs !== null ? [{ ...sample, tookMs: sample.tookMs }] : [],
  )
  const latencies = done.map(({ tookMs }) => tookMs / 1_000)
  const spanMs = Math.max(...done.map(({ atMs, tookMs }) => atMs + tookMs)) - Math.min(...samples.map(({ atMs }) => atMs))
  const qualities = done.flatMap(({ quality }) => quality ?? [])
  const share = (these: readonly unknown[]) => over(these.length, samples.length)
  const log2 = mean(qualities.map(({ meanLog2Probability }) => meanLog2Probability))
  return {
    /** From the first request to the last answer. */
    answersPerMin: done.length === 0 ? null : (60_000 * done.length) / spanMs,
    latencyMeanS: mean(latencies),
    latencyP95S: quantileOrNull(latencies, 0.95),
    ttftMeanS: mean(done.flatMap(({ ttftMs }) => (ttftMs === null ? [] : [ttftMs / 1_000]))),
    /** Share of the requests. */
    answered: share(done),
    sketched: share(done.filter(({ by }) => by === 'sketch')),
    byDevice: share(done.filter(({ by }) => by === 'device')),
    /** Generated tokens per answer. */
    cloudTokens: mean(done.map(({ cloudTokens }) => cloudTokens)),
    edgeTokens: mean(done.map(({ edgeTokens }) => edgeTokens)),
    /** Of an answer, in the LLM's vocabulary. */
    tokens: mean(done.flatMap(({ tokens }) => tokens ?? [])),
    /** Of the answers that devices expanded: those with each form marker of their sketch. */
    formKept: over(
      done.filter((sample) => sample.formKept === true).length,
      done.filter((sample) => sample.formKept !== null).length,
    ),
    rouge1: mean(qualities.map((quality) => quality.rouge1)),
    confidence: mean(qualities.map((quality) => quality.confidence)),
    /** Of the answers under the LLM: 2 to the power of the mean over answers of −(1/N) Σ log2 p. */
    perplexity: log2 === null ? null : 2 ** -log2,
  }
}

export type FigureName = keyof ReturnType<typeof figuresOf>

const { medianOf, ratioOf } = figuresOver<PiceRun, FigureName>(figuresOf, ['measured', 'load', 'seed'])

export { medianOf }

/** A figure of a method over another's, at the same load with the same seed: the median over seeds. */
export const methodRatio = (
  runs: readonly PiceRun[],
  figure: FigureName,
  [method, other]: readonly [MethodName, MethodName],
  load: number,
): number | null => ratioOf(select(runs, { measured: 'compared', load }), figure, [{ method }, { method: other }])

interface Measurements {
  readonly runs: readonly PiceRun[]
  readonly devices: readonly DeviceFigures[]
  readonly silent: readonly SilentDeviceRun[]
  readonly rubbish: RubbishRun
}

/** A figure of PICE over another method's, at the paper's load unless another is given. */
const ratio =
  (figure: FigureName, other: MethodName, load = paperLoad) =>
  ({ runs }: Measurements) =>
    methodRatio(runs, figure, ['PICE', other], load)

const ownRuns = (runs: readonly PiceRun[]) => select(runs, { measured: 'compared', method: 'PICE', load: paperLoad })

function answered({ runs }: Measurements): number | null {
  const samples = runs.flatMap((run) => run.samples)
  return over(samples.filter(({ error }) => error === null).length, samples.length)
}

export const piceFigures: SummaryFigures<Measurements> = {
  throughputOverCloudOnly: [ratio('answersPerMin', 'cloud-only'), { min: 1.6 }],
  latencyOverCloudOnly: [ratio('latencyMeanS', 'cloud-only'), { max: 0.5 }],
  firstTextOverFull: [ratio('ttftMeanS', 'cloud-only', halfLoad), { max: 2 }],
  latencyAtHalfLoad: [ratio('latencyMeanS', 'cloud-only', halfLoad), { max: 1.05 }],
  dynamicOverStatic: [ratio('answersPerMin', 'PICE static'), { min: 1.15 }],
  prefixTokensSaved: [({ devices }) => medianOrNull(devices.map(prefixTokensSaved)), { min: 0.4 }],
  parallelOverSequential: [({ devices }) => medianOrNull(devices.map(parallelOverSequential)), { min: 2 }],
  latencyWithSilentDevice: [({ silent }) => medianOrNull(silent.map(overAlone)), { max: 1.1 }],
  rubbishServed: [({ rubbish }) => rubbishShare(rubbish), { max: 0 }],
  answered: [answered, { min: 1 }],
  throughputOverCloudOnlyAt15: [ratio('answersPerMin', 'cloud-only', overload)],
  latencyOverCloudOnlyAt15: [ratio('latencyMeanS', 'cloud-only', overload)],
  latencyP95OverCloudOnly: [ratio('latencyP95S', 'cloud-only')],
  throughputOverRouting: [ratio('answersPerMin', 'routing by difficulty')],
  latencyOverStatic: [ratio('latencyMeanS', 'PICE static')],
  cloudTokensOverCloudOnly: [ratio('cloudTokens', 'cloud-only')],
  sketched: [({ runs }) => medianOf(ownRuns(runs), 'sketched')],
  formKept: [({ runs }) => medianOf(ownRuns(runs), 'formKept'), { min: 1 }],
  rouge1: [({ runs }) => medianOf(ownRuns(runs), 'rouge1')],
  perplexityOverCloudOnly: [ratio('perplexity', 'cloud-only')],
}

/** Share of the prompts' positions that were not computed because groups share their beginning. */
export const prefixTokensSaved = ({ prefilledTokens, promptTokens }: DeviceFigures): number => 1 - prefilledTokens / promptTokens

/** Tokens per second of ten sentences in one job over those of a job for each. */
export function parallelOverSequential({ parallelMs, parallelTokens, sequentialMs, sequentialTokens }: DeviceFigures): number {
  return parallelTokens / parallelMs / (sequentialTokens / sequentialMs)
}

/** How often the LLM answered in full, by reason. */
export function reasonsOf(runs: readonly PiceRun[]): ReadonlyMap<string, number> {
  const reasons = runs.flatMap(({ samples }) => samples.filter(({ by }) => by === 'cloud').map(({ reason }) => reason ?? 'none'))
  return new Map(groupBy(reasons.sort(), (reason) => reason).map((same) => [same[0]!, same.length]))
}
