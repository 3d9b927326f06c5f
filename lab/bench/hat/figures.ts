import { median, quantile } from '../../../core/policy/estimate/quantile.ts'
import type { Summary } from '../../frame/bench.ts'
import { mean, medianOrNull, sum } from '../statistics.ts'
import type { BatchTimes } from './batch.ts'
import { decodeSteps, type HatRun, type Measured, type Sample } from './runs.ts'
import type { StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** Figures of one run in ms; null without samples. TTFT is the mean over requests, as in the paper. */
export interface RunFigures {
  readonly ttftMs: number | null
  /** Time per token, over all answers together. */
  readonly tbtMs: number | null
  /** Tokens per verification, bonus included, over all answers together. */
  readonly acceptLength: number | null
  readonly stepMs: number | null
  readonly stepDeviationMs: number | null
}

export function figuresOf({ samples, steps }: Pick<HatRun, 'samples' | 'steps'>): RunFigures {
  const delays = decodeSteps(steps).map(({ computeMs }) => computeMs)
  return {
    ttftMs: mean(samples.map(({ ttftMs }) => ttftMs)),
    tbtMs: tbtOf(samples),
    acceptLength: acceptLengthOf(samples),
    stepMs: mean(delays),
    stepDeviationMs: deviation(delays),
  }
}

/** Mean time per token after the first, over all answers together. */
export function tbtOf(samples: readonly Sample[]): number | null {
  const decoded = samples.filter(({ tbtMs }) => tbtMs !== null)
  const tokens = sum(decoded.map((sample) => sample.tokens - 1))
  return tokens === 0 ? null : sum(decoded.map((sample) => sample.tbtMs! * (sample.tokens - 1))) / tokens
}

/** Tokens per verification; the first token of an answer belongs to no verification. */
export function acceptLengthOf(samples: readonly Sample[]): number | null {
  const rounds = sum(samples.map((sample) => sample.rounds))
  return rounds === 0 ? null : sum(samples.map((sample) => sample.tokens - 1)) / rounds
}

function deviation(values: readonly number[]): number | null {
  const middle = mean(values)
  return middle === null ? null : Math.sqrt(sum(values.map((value) => (value - middle) ** 2)) / values.length)
}

export const answerKinds = ['all', 'looping', 'without loops'] as const

/** The samples of one kind; those whose `looping` was not recorded count in `all` only. */
export const answersOf = (samples: readonly Sample[], kind: (typeof answerKinds)[number]): Sample[] =>
  samples.filter(({ looping }) => kind === 'all' || looping === (kind === 'looping'))

/** Gaps between delivered tokens, in ms; 0 between tokens of one piece. */
export function gapsOf({ tokens, piecesMs }: Sample): number[] {
  const between = piecesMs.slice(1).map((atMs, i) => atMs - piecesMs[i]!)
  return [...between, ...Array.from({ length: Math.max(0, tokens - piecesMs.length) }, () => 0)]
}

/** The q-quantile over requests of TTFT and TBT. */
export function quantilesOf(runs: readonly HatRun[], q: number): { ttftMs: number | null; tbtMs: number | null } {
  const samples = runs.flatMap((run) => run.samples)
  const of = (values: number[]) => (values.length === 0 ? null : quantile(values, q))
  return {
    ttftMs: of(samples.map(({ ttftMs }) => ttftMs)),
    tbtMs: of(samples.flatMap(({ tbtMs }) => (tbtMs === null ? [] : [tbtMs]))),
  }
}

/** The runs that match and are not void. */
export function select(
  runs: readonly HatRun[],
  wanted: { readonly measured: Measured; readonly strategy?: StrategyName; readonly workload?: WorkloadName },
): HatRun[] {
  const keys = Object.entries(wanted) as [keyof typeof wanted, string][]
  return runs.filter((run) => !run.isVoid && keys.every(([key, value]) => run[key] === value))
}

/** The summary. A ratio compares runs of the same seed, and is the median over seeds. */
export function summarise(runs: readonly HatRun[], batch: BatchTimes): Summary {
  const over = (
    measured: Measured,
    workload: WorkloadName,
    strategies: readonly [StrategyName, StrategyName],
    figure: (run: HatRun) => number | null,
    otherFigure = figure,
  ) => {
    const [own, other] = strategies.map((strategy) => select(runs, { measured, workload, strategy }))
    const ratios = own!.flatMap((run) => {
      const beside = other!.find(({ seed }) => seed === run.seed)
      const [a, b] = [figure(run), beside ? otherFigure(beside) : null]
      return a === null || b === null || b === 0 ? [] : [a / b]
    })
    return medianOrNull(ratios)
  }
  const ttft = (run: HatRun) => figuresOf(run).ttftMs
  const tbt = (run: HatRun) => figuresOf(run).tbtMs
  const tbtWithoutLoops = ({ samples }: HatRun) => tbtOf(answersOf(samples, 'without loops'))
  const limit = ({ samples }: HatRun) => mean(samples.flatMap(({ prefill }) => (prefill ? [prefill.limitMs] : [])))
  const tbtTimesAccept = (run: HatRun) => times(tbt(run), figuresOf(run).acceptLength)
  const variation = (run: HatRun) => {
    const { stepMs, stepDeviationMs } = figuresOf(run)
    return stepMs && stepDeviationMs !== null ? stepDeviationMs / stepMs : null
  }
  const hat = (workload?: WorkloadName) =>
    select(runs, { measured: 'loaded', strategy: 'hat', ...(workload ? { workload } : {}) }).flatMap((run) => run.samples)
  const inverse = (ratio: number | null) => (ratio === null ? null : 1 / ratio)
  return {
    ttftOverUShapeLong: over('alone', 'long', ['hat', 'u-shape'], ttft),
    ttftOverUShapeLongLoaded: over('loaded', 'long', ['hat', 'u-shape'], ttft),
    limitOverUShapeLong: over('alone', 'long', ['hat', 'u-shape'], limit, ttft),
    // Per request, unlike the other ratios.
    ttftOverLimit: medianOrNull(
      select(runs, { measured: 'alone', strategy: 'hat', workload: 'long' })
        .flatMap(({ samples }) => samples)
        .flatMap(({ ttftMs, prefill }) => (prefill ? [ttftMs / prefill.limitMs] : [])),
    ),
    ttftLeanOverUShapeLong: over('alone', 'long', ['u-shape-lean', 'u-shape'], ttft),
    ttftInt8OverUShapeLong: over('alone', 'long', ['hat-int8', 'u-shape'], ttft),
    ttftSecondTurnOverUShape: over('second-turn', 'long', ['hat', 'u-shape'], ttft),
    tbtTimesAcceptOverUShapeShort: over('loaded', 'short', ['hat', 'u-shape'], tbtTimesAccept),
    tbtTimesAcceptOverUShapeLong: over('loaded', 'long', ['hat', 'u-shape'], tbtTimesAccept),
    tbtOverUShapeShort: over('loaded', 'short', ['hat', 'u-shape'], tbt),
    tbtOverUShapeLong: over('loaded', 'long', ['hat', 'u-shape'], tbt),
    tbtOverUShapeShortWithoutLoops: over('loaded', 'short', ['hat', 'u-shape'], tbtWithoutLoops),
    tbtOverUShapeLongWithoutLoops: over('loaded', 'long', ['hat', 'u-shape'], tbtWithoutLoops),
    tbtOverUSarathiShort: over('loaded', 'short', ['hat', 'u-sarathi'], tbt),
    tbtOverUMedusaShort: over('loaded', 'short', ['hat', 'u-medusa'], tbt),
    acceptLength: acceptLengthOf(hat()),
    acceptLengthWithoutLoops: acceptLengthOf(answersOf(hat(), 'without loops')),
    acceptLengthShort: acceptLengthOf(hat('short')),
    acceptLengthLong: acceptLengthOf(hat('long')),
    decodeSpeedup: inverse(over('alone', 'short', ['hat', 'u-shape'], tbt)),
    cloudDelayCvOverUShape: over('loaded', 'short', ['hat', 'u-shape'], variation),
    gError: predictionError(select(runs, { measured: 'loaded', strategy: 'hat' })),
    batch16OverSerial: median(batch.inTurnMs) / median(batch.togetherMs),
    ...ttftShares(select(runs, { measured: 'longest', strategy: 'u-shape' })),
    answersDifferent: runs.flatMap((run) => run.samples).filter(({ identical }) => identical === false).length,
  }
}

const times = (a: number | null, b: number | null) => (a === null || b === null ? null : a * b)

/** Median over steps of |measured − g| / measured. */
export function predictionError(runs: readonly HatRun[]): number | null {
  const errors = runs
    .flatMap(({ steps }) => decodeSteps(steps))
    .flatMap(({ computeMs, predictedMs }) => (predictedMs === null ? [] : [Math.abs(computeMs - predictedMs) / computeMs]))
  return medianOrNull(errors)
}

/** TTFT of the longest prompts by device, network and cloud, in percent. */
function ttftShares(runs: readonly HatRun[]) {
  const samples = runs.flatMap((run) => run.samples)
  const totalMs = sum(samples.map(({ ttftMs }) => ttftMs))
  const share = (part: 'deviceMs' | 'networkMs' | 'cloudMs') =>
    samples.length === 0 ? null : (100 * sum(samples.map(({ prefill }) => prefill?.[part] ?? 0))) / totalMs
  return { sharePercentDevice: share('deviceMs'), sharePercentNetwork: share('networkMs'), sharePercentCloud: share('cloudMs') }
}
