import { bandOf, type DeadBand, type DeadBands, type FigureValue, isObject, type Measurements } from './dead-bands.ts'

/**
 * Resolution of figures, by the end of their names. A figure counts as unchanged while it differs by less than `part` of its
 * value or `amount`, whichever is more; and it is rounded to `amount`, or to three digits where that is 0. Sensors resolve
 * less than they print: thermal zones are accurate to a degree or more, and a step of an INA3221 is 40 mW on a 5 V rail.
 * Figures that no row covers, such as counts, are exact.
 */
const resolutions: DeadBands = {
  C: { part: 0, amount: 0.5 },
  W: { part: 0, amount: 0.05 },
  Percent: { part: 0, amount: 1 },
  MHz: { part: 0.05, amount: 1 },
  rpm: { part: 0.05, amount: 10 },
  Bytes: { part: 0, amount: 1e7 },
  rxBytesPerS: { part: 0.05, amount: 1_000 },
  txBytesPerS: { part: 0.05, amount: 1_000 },
  BytesPerS: { part: 0.05, amount: 0 },
  TokensPerS: { part: 0.05, amount: 0 },
  rttMs: { part: 0.1, amount: 0 },
  draftStepMs: { part: 0.05, amount: 0 },
  jPerToken: { part: 0.05, amount: 0 },
  JPerToken: { part: 0.05, amount: 0 },
  uptimeS: { part: 0, amount: 2 },
}
/** Rounding these would lose what it cannot save: they change by themselves. */
const unrounded = new Set(['uptimeS'])
const digits = 3

/**
 * Rounds measurements to their resolution. Figures that differ from those of `base` by less than their resolution are
 * replaced by these, so that the noise of sensors does not look like a change.
 * @param overrides dead bands of the operator: a figure never resolves less
 */
export function settled(measured: Measurements, base: Measurements | undefined, overrides: DeadBands = {}): Measurements {
  return settle(measured as FigureValue, base as FigureValue, overrides) as Measurements
}

interface Resolution {
  readonly step: DeadBand
  readonly override: DeadBand | undefined
  readonly isRounded: boolean
}

function settle(now: FigureValue, then: FigureValue, overrides: DeadBands, inherited?: Resolution): FigureValue {
  if (typeof now === 'number') return inherited ? settledFigure(now, then, inherited) : now
  if (!isObject(now) || Array.isArray(now)) return now
  return Object.fromEntries(
    Object.entries(now).map(([name, value]) => {
      const before = isObject(then) && Object.hasOwn(then, name) ? then[name] : undefined
      return [name, settle(value, before, overrides, inherited ?? resolutionOf(name, overrides))]
    }),
  )
}

function resolutionOf(name: string, overrides: DeadBands): Resolution | undefined {
  const step = bandOf(name, resolutions)
  return step && { step, override: bandOf(name, overrides), isRounded: !unrounded.has(name) }
}

function settledFigure(now: number, then: FigureValue, { step, override, isRounded }: Resolution): number {
  const width = ({ part, amount }: DeadBand) => Math.max(part * Math.abs(now), amount)
  const limit = override ? Math.min(width(step), width(override)) : width(step)
  if (typeof then === 'number' && Math.abs(now - then) < limit) return then
  // A finer dead band wants finer figures than ours.
  if (!isRounded || (override && width(override) < width(step))) return now
  return step.amount > 0 ? multipleOf(now, step.amount) : Number(now.toPrecision(digits))
}

/** Without the digits of binary fractions: 4.85, not 4.8500000000000005; and 0, not -0. */
const multipleOf = (value: number, unit: number) => Number((Math.round(value / unit) * unit).toPrecision(12)) + 0
