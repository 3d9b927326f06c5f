import { median } from '../../../core/policy/estimate/quantile.ts'
import type { BenchDocument, Summary } from '../../frame/bench.ts'
import { type FigureOf, figuresOver, select, type Wanted } from '../../frame/runs.ts'
import { mean, medianOrNull, over, quantileOrNull, sum } from '../../frame/statistics.ts'
import type { BatchTimes } from './batch.ts'
import { decodeSteps, type HatRun, type Measured, type Sample } from './runs.ts'
import type { StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** Figures of one run in ms; null without samples. */
export function figuresOf({ samples, steps }: Pick<HatRun, 'samples' | 'steps'>) {
  const delays = decodeSteps(steps).map(({ computeMs }) => computeMs)
  return {
    /** Mean over requests, as in the paper. */
    ttftMs: mean(samples.map(({ ttftMs }) => ttftMs)),
    tbtMs: tbtOf(samples),
    acceptLength: acceptLengthOf(samples),
    stepMs: mean(delays),
    stepDeviationMs: deviation(delays),
  }
}

export type FigureName = keyof ReturnType<typeof figuresOf>

export const { medianOf, ratioOf } = figuresOver<HatRun, FigureName>(figuresOf, ['seed', 'workload'])

export const runsOf = ({ runs }: Pick<BenchDocument, 'runs'>) => runs as readonly HatRun[]

/** The runs that match and are not void. */
export const validRuns = (runs: readonly HatRun[], wanted: Wanted<HatRun>) => select(runs, { isVoid: false, ...wanted })

/** Mean time per token after the first, over all answers together. */
export function tbtOf(samples: readonly Sample[]): number | null {
  const decoded = samples.filter(({ tbtMs }) => tbtMs !== null)
  return over(sum(decoded.map(({ tokens, tbtMs }) => tbtMs! * (tokens - 1))), sum(decoded.map(({ tokens }) => tokens - 1)))
}

/** Tokens per verification, bonus included; the first token of an answer belongs to no verification. */
export const acceptLengthOf = (samples: readonly Sample[]): number | null =>
  over(sum(samples.map(({ tokens }) => tokens - 1)), sum(samples.map(({ rounds }) => rounds)))

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

/** The q-quantile over requests. */
export const quantileOf = (samples: readonly Sample[], figure: 'ttftMs' | 'tbtMs', q: number): number | null =>
  quantileOrNull(
    samples.flatMap((sample) => sample[figure] ?? []),
    q,
  )

/** The summary. A ratio compares runs of the same seed, and is the median over seeds. */
export function summarise(runs: readonly HatRun[], batch: BatchTimes): Summary {
  /** Of HAT over U-shape, unless two others are named. */
  const ratio = (
    measured: Measured,
    workload: WorkloadName,
    figure: FigureOf<HatRun, FigureName>,
    [own, other]: readonly [StrategyName, StrategyName] = ['hat', 'u-shape'],
    otherFigure = figure,
  ) => ratioOf(validRuns(runs, { measured, workload }), figure, [{ strategy: own }, { strategy: other }], otherFigure)
  const tbtWithoutLoops = ({ samples }: HatRun) => tbtOf(answersOf(samples, 'without loops'))
  const limit = ({ samples }: HatRun) => mean(samples.flatMap(({ prefill }) => prefill?.limitMs ?? []))
  const tbtTimesAccept = ({ samples }: HatRun) => {
    const [tbtMs, acceptLength] = [tbtOf(samples), acceptLengthOf(samples)]
    return tbtMs === null || acceptLength === null ? null : tbtMs * acceptLength
  }
  const variation = (run: HatRun) => {
    const { stepMs, stepDeviationMs } = figuresOf(run)
    return over(stepDeviationMs, stepMs)
  }
  const samplesOf = (wanted: Wanted<HatRun>) => validRuns(runs, wanted).flatMap(({ samples }) => samples)
  const hat = samplesOf({ measured: 'loaded', strategy: 'hat' })
  return {
    ttftOverUShapeLong: ratio('alone', 'long', 'ttftMs'),
    ttftOverUShapeLongLoaded: ratio('loaded', 'long', 'ttftMs'),
    limitOverUShapeLong: ratio('alone', 'long', limit, undefined, 'ttftMs'),
    // Per request, unlike the other ratios.
    ttftOverLimit: medianOrNull(
      samplesOf({ measured: 'alone', strategy: 'hat', workload: 'long' }).flatMap(({ ttftMs, prefill }) =>
        prefill ? [ttftMs / prefill.limitMs] : [],
      ),
    ),
    ttftLeanOverUShapeLong: ratio('alone', 'long', 'ttftMs', ['u-shape-lean', 'u-shape']),
    ttftInt8OverUShapeLong: ratio('alone', 'long', 'ttftMs', ['hat-int8', 'u-shape']),
    ttftSecondTurnOverUShape: ratio('second-turn', 'long', 'ttftMs'),
    tbtTimesAcceptOverUShapeShort: ratio('loaded', 'short', tbtTimesAccept),
    tbtTimesAcceptOverUShapeLong: ratio('loaded', 'long', tbtTimesAccept),
    tbtOverUShapeShort: ratio('loaded', 'short', 'tbtMs'),
    tbtOverUShapeLong: ratio('loaded', 'long', 'tbtMs'),
    tbtOverUShapeShortWithoutLoops: ratio('loaded', 'short', tbtWithoutLoops),
    tbtOverUShapeLongWithoutLoops: ratio('loaded', 'long', tbtWithoutLoops),
    tbtOverUSarathiShort: ratio('loaded', 'short', 'tbtMs', ['hat', 'u-sarathi']),
    tbtOverUMedusaShort: ratio('loaded', 'short', 'tbtMs', ['hat', 'u-medusa']),
    acceptLength: acceptLengthOf(hat),
    acceptLengthWithoutLoops: acceptLengthOf(answersOf(hat, 'without loops')),
    acceptLengthShort: acceptLengthOf(samplesOf({ measured: 'loaded', strategy: 'hat', workload: 'short' })),
    acceptLengthLong: acceptLengthOf(samplesOf({ measured: 'loaded', strategy: 'hat', workload: 'long' })),
    decodeSpeedup: over(1, ratio('alone', 'short', 'tbtMs')),
    cloudDelayCvOverUShape: ratio('loaded', 'short', variation),
    gError: predictionError(validRuns(runs, { measured: 'loaded', strategy: 'hat' })),
    batch16OverSerial: median(batch.inTurnMs) / median(batch.togetherMs),
    ...ttftShares(samplesOf({ measured: 'longest', strategy: 'u-shape' })),
    answersDifferent: runs.flatMap((run) => run.samples).filter(({ identical }) => identical === false).length,
  }
}

/** Median over steps of |measured − g| / measured. */
export function predictionError(runs: readonly HatRun[]): number | null {
  const steps = runs.flatMap((run) => decodeSteps(run.steps))
  return medianOrNull(
    steps.flatMap(({ computeMs, predictedMs }) => (predictedMs === null ? [] : [Math.abs(computeMs - predictedMs) / computeMs])),
  )
}

/** TTFT of the longest prompts by device, network and cloud, in percent. */
function ttftShares(samples: readonly Sample[]) {
  const totalMs = sum(samples.map(({ ttftMs }) => ttftMs))
  const share = (part: 'deviceMs' | 'networkMs' | 'cloudMs') =>
    over(100 * sum(samples.map(({ prefill }) => prefill?.[part] ?? 0)), totalMs)
  return { sharePercentDevice: share('deviceMs'), sharePercentNetwork: share('networkMs'), sharePercentCloud: share('cloudMs') }
}
