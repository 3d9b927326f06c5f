import { median } from '../../../core/policy/estimate/quantile.ts'
import type { Hardware } from '../hardware/roofline.ts'
import { type MeasuredModel, type MeasuredSteps, predictedS } from './measured-steps.ts'
import { minimise } from './nelder-mead.ts'

/** What is fitted. */
const constants = ['bytesPerS', 'flopPerS', 'layerS', 'streamS'] as const
export type Constant = (typeof constants)[number]

/** From which the search begins: those of a desktop processor, and of a GPU. Times in s, rates per s. */
const starts: readonly (readonly number[])[] = [
  [1e10, 5e10, 5e-5, 5e-6],
  [1e12, 1e14, 1e-4, 1e-7],
  [1e11, 5e12, 5e-4, 1e-6],
]

/** A constant that may be four times as good without making any difference that counts is not known. */
const probe = 4
const difference = 0.005

/** Differences of logarithms up to which an error counts by its square; larger ones count by their size. */
const huber = 0.1

export interface FittedStep extends MeasuredSteps {
  readonly medianS: number
  readonly predictedS: number
  /** (predicted − measured) / measured. */
  readonly error: number
}

export interface Fit {
  readonly hardware: Hardware
  readonly steps: readonly FittedStep[]
  /** |error| of the median step, and of the 95th of 100. */
  readonly medianError: number
  readonly p95Error: number
  /** Constants about which these measurements say nothing: they never bound a step. */
  readonly unknown: readonly Constant[]
}

/**
 * The constants with which the cost model is nearest to measured steps: least squares of the logarithms of medians, robust
 * (Huber 1964), each size of steps weighted by the root of its number.
 *
 * @param rest what is not fitted
 * @throws RangeError without steps
 */
export function fitHardware(model: MeasuredModel, measured: readonly MeasuredSteps[], rest: Omit<Hardware, Constant>): Fit {
  if (measured.length === 0) throw new RangeError('no steps to fit')
  const sizes = measured.map((steps) => ({ steps, medianS: median(steps.seconds), weight: Math.sqrt(steps.seconds.length) }))
  const total = sizes.reduce((sum, { weight }) => sum + weight, 0)
  const cost = (point: readonly number[]) => {
    const hardware = hardwareAt(point, rest)
    const loss = sizes.map(
      ({ steps, medianS, weight }) => weight * lossOf(Math.log(predictedS(hardware, model, steps) / medianS)),
    )
    return loss.reduce((sum, each) => sum + each, 0) / total
  }
  const fits = starts.map((start) => minimise(cost, minimise(cost, start.map(Math.log))))
  const best = fits.reduce((least, point) => (cost(point) < cost(least) ? point : least))
  const hardware = hardwareAt(best, rest)
  const steps = sizes.map(({ steps: size, medianS }) => {
    const seconds = predictedS(hardware, model, size)
    return { ...size, medianS, predictedS: seconds, error: seconds / medianS - 1 }
  })
  const changed = (at: number) => best.map((value, i) => (i === at ? value + Math.log(isRate(i) ? probe : 1 / probe) : value))
  return {
    hardware,
    steps,
    medianError: errorOf(steps, 0.5),
    p95Error: errorOf(steps, 0.95),
    unknown: constants.filter((_, at) => Math.sqrt(2 * cost(changed(at))) - Math.sqrt(2 * cost(best)) < difference),
  }
}

const isRate = (at: number) => constants[at] === 'bytesPerS' || constants[at] === 'flopPerS'

/** Of a constant in SI units, either way (6e17): one that bounds no step would grow beyond all numbers. */
const maxLog = 41
const constantOf = (log: number) => Math.exp(Math.min(maxLog, Math.max(-maxLog, log)))

function hardwareAt(point: readonly number[], rest: Omit<Hardware, Constant>): Hardware {
  const [bytesPerS, flopPerS, layerS, streamS] = point.map(constantOf) as [number, number, number, number]
  return { ...rest, bytesPerS, flopPerS, layerS, streamS }
}

const lossOf = (error: number): number => (Math.abs(error) <= huber ? error ** 2 / 2 : huber * (Math.abs(error) - huber / 2))

/** |error| that this share of the measured steps does not exceed. */
function errorOf(sizes: readonly FittedStep[], share: number): number {
  const sorted = [...sizes].sort((a, b) => Math.abs(a.error) - Math.abs(b.error))
  let left = share * sorted.reduce((sum, { seconds }) => sum + seconds.length, 0)
  for (const { error, seconds } of sorted) {
    left -= seconds.length
    if (left <= 0) return Math.abs(error)
  }
  return Math.abs(sorted.at(-1)!.error)
}
