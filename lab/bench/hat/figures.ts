import { median } from '../../../core/policy/estimate/quantile.ts'
import type { BenchDocument } from '../../frame/bench.ts'
import type { SummaryFigures } from '../../frame/figures.ts'
import { type FigureOf, figuresOver, select, type Wanted } from '../../frame/runs.ts'
import { mean, medianOrNull, over, quantileOrNull, sum } from '../../frame/statistics.ts'
import type { BatchTimes } from './batch.ts'
import { draftOverClairvoyant, draftOverOracle, type OracleRow } from './draft-oracle.ts'
import type { HatRun, Measured, Sample } from './runs.ts'
import type { StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/** Figures of one run in ms; null without samples. */
export function figuresOf({ samples, steps }: Pick<HatRun, 'samples' | 'steps'>) {
  const delays = steps.map(({ computeMs }) => computeMs)
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

interface Measurements {
  readonly runs: readonly HatRun[]
  readonly batch: BatchTimes
  readonly drafts: readonly OracleRow[]
}

/** A figure of HAT over U-shape's, unless two others are named, in runs of the same seed: the median over seeds. */
const ratio =
  (
    measured: Measured,
    workload: WorkloadName,
    figure: FigureOf<HatRun, FigureName>,
    [own, other]: readonly [StrategyName, StrategyName] = ['hat', 'u-shape'],
    otherFigure = figure,
  ) =>
  ({ runs }: Measurements) =>
    ratioOf(validRuns(runs, { measured, workload }), figure, [{ strategy: own }, { strategy: other }], otherFigure)

const samplesOf = (runs: readonly HatRun[], wanted: Wanted<HatRun>) => validRuns(runs, wanted).flatMap(({ samples }) => samples)
const loadedHat = (runs: readonly HatRun[], workload?: WorkloadName) =>
  samplesOf(runs, { measured: 'loaded', strategy: 'hat', workload })

const tbtWithoutLoops = ({ samples }: HatRun) => tbtOf(answersOf(samples, 'without loops'))
const bytesUp = ({ samples }: HatRun) => mean(samples.map((sample) => sample.bytesUp))
const limit = ({ samples }: HatRun) => mean(samples.flatMap(({ prefill }) => prefill?.limitMs ?? []))

function tbtTimesAccept({ samples }: HatRun): number | null {
  const [tbtMs, acceptLength] = [tbtOf(samples), acceptLengthOf(samples)]
  return tbtMs === null || acceptLength === null ? null : tbtMs * acceptLength
}

function variation(run: HatRun): number | null {
  const { stepMs, stepDeviationMs } = figuresOf(run)
  return over(stepDeviationMs, stepMs)
}

function overLimit({ runs }: Measurements): number | null {
  const samples = samplesOf(runs, { measured: 'alone', strategy: 'hat', workload: 'long' })
  return medianOrNull(samples.flatMap(({ ttftMs, prefill }) => (prefill ? [ttftMs / prefill.limitMs] : [])))
}

/** A part of the TTFT of the longest prompts under U-shape, in percent. */
const ttftShare =
  (part: 'deviceMs' | 'networkMs' | 'cloudMs') =>
  ({ runs }: Measurements) => {
    const samples = samplesOf(runs, { measured: 'longest', strategy: 'u-shape' })
    return over(100 * sum(samples.map(({ prefill }) => prefill?.[part] ?? 0)), sum(samples.map(({ ttftMs }) => ttftMs)))
  }

/** Of a busy bridge under HAT, the median over workloads. */
const busyFigure =
  (figure: (run: HatRun) => number | null) =>
  ({ runs }: Measurements) =>
    medianOf(validRuns(runs, { measured: 'busy', strategy: 'hat' }), figure)

export const hatFigures: SummaryFigures<Measurements> = {
  // The headline: of answers without loops where a figure depends on drafts.
  tbtOverUShapeShortWithoutLoops: [ratio('loaded', 'short', tbtWithoutLoops), { max: 0.5 }],
  tbtOverUShapeLongWithoutLoops: [ratio('loaded', 'long', tbtWithoutLoops)],
  tbtOverUSarathiShort: [ratio('loaded', 'short', tbtWithoutLoops, ['hat', 'u-sarathi']), { max: 0.5 }],
  tbtOverUMedusaShort: [ratio('loaded', 'short', tbtWithoutLoops, ['hat', 'u-medusa']), { max: 0.7 }],
  decodeSpeedup: [(measured) => over(1, ratio('alone', 'short', tbtWithoutLoops)(measured)), { min: 2 }],
  acceptLengthWithoutLoops: [({ runs }) => acceptLengthOf(answersOf(loadedHat(runs), 'without loops')), { min: 2.2 }],
  ttftOverUShapeLong: [ratio('alone', 'long', 'ttftMs'), { max: 0.55 }],
  ttftOverUShapeLongLoaded: [ratio('loaded', 'long', 'ttftMs'), { max: 0.52 }],
  limitOverUShapeLong: [ratio('alone', 'long', limit, undefined, 'ttftMs')],
  // Per request, unlike the other ratios.
  ttftOverLimit: [overLimit, { max: 1.05 }],
  ttftLeanOverUShapeLong: [ratio('alone', 'long', 'ttftMs', ['u-shape-lean', 'u-shape'])],
  ttftInt8OverUShapeLong: [ratio('alone', 'long', 'ttftMs', ['hat-int8', 'u-shape']), { max: 0.4 }],
  // What coding the states saves of TTFT, and of the bytes up.
  ttftOverUncodedLong: [ratio('alone', 'long', 'ttftMs', ['hat', 'hat-fp16'])],
  bytesUpOverUncodedLong: [ratio('alone', 'long', bytesUp, ['hat', 'hat-fp16'])],
  ttftSecondTurnOverUShape: [ratio('second-turn', 'long', 'ttftMs'), { max: 0.06 }],
  tbtTimesAcceptOverUShapeShort: [ratio('loaded', 'short', tbtTimesAccept), { max: 1.1 }],
  tbtTimesAcceptOverUShapeLong: [ratio('loaded', 'long', tbtTimesAccept), { max: 1.15 }],
  tbtOverUShapeShort: [ratio('loaded', 'short', 'tbtMs')],
  tbtOverUShapeLong: [ratio('loaded', 'long', 'tbtMs')],
  acceptLength: [({ runs }) => acceptLengthOf(loadedHat(runs))],
  acceptLengthShort: [({ runs }) => acceptLengthOf(loadedHat(runs, 'short'))],
  acceptLengthLong: [({ runs }) => acceptLengthOf(loadedHat(runs, 'long'))],
  cloudDelayCvOverUShape: [ratio('loaded', 'short', variation), { max: 0.6 }],
  gError: [({ runs }) => predictionError(validRuns(runs, { measured: 'loaded', strategy: 'hat' })), { max: 0.1 }],
  draftOverOracle: [({ drafts }) => draftOverOracle(drafts), { max: 1.05 }],
  draftOverClairvoyant: [({ drafts }) => draftOverClairvoyant(drafts)],
  batch16OverSerial: [({ batch }) => median(batch.inTurnMs) / median(batch.togetherMs), { min: 2.5 }],
  busyComputing: [busyFigure(({ utilisation }) => utilisation?.computing ?? null)],
  busyStepsOfSeveral: [
    busyFigure(({ steps }) => over(steps.filter(({ items }) => items > 1).length, steps.length)),
    { min: 0.5 },
  ],
  ttftOverUShapeLongBusy: [ratio('busy', 'long', 'ttftMs')],
  tbtOverUShapeShortBusy: [ratio('busy', 'short', tbtWithoutLoops)],
  sharePercentDevice: [ttftShare('deviceMs')],
  sharePercentNetwork: [ttftShare('networkMs')],
  sharePercentCloud: [ttftShare('cloudMs')],
  answersDifferent: [
    ({ runs }) => runs.flatMap(({ samples }) => samples).filter(({ identical }) => identical === false).length,
    { max: 0 },
  ],
}

/** Median over steps of |measured − g| / measured. */
export function predictionError(runs: readonly HatRun[]): number | null {
  const steps = runs.flatMap((run) => run.steps)
  return medianOrNull(
    steps.flatMap(({ computeMs, predictedMs }) => (predictedMs === null ? [] : [Math.abs(computeMs - predictedMs) / computeMs])),
  )
}
