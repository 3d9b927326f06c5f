import type { DeviceTelemetry } from '../../wire/protocol/messages.ts'

/** A device's measurements of itself: an object per source. */
export type Measurements = Omit<DeviceTelemetry, 'v' | 'at' | 'birth' | 'seq' | 'clockIsSet' | 'replayed'>

export type FigureValue =
  | number
  | string
  | boolean
  | null
  | undefined
  | readonly FigureValue[]
  | { readonly [name: string]: FigureValue }

/** A figure has moved when it differs by more than both `part` of its last value and `amount`. */
export interface DeadBand {
  readonly part: number
  readonly amount: number
}
/** By the name of a figure or the end of its name, which is its unit. */
export type DeadBands = Readonly<Record<string, DeadBand>>

const rate: DeadBand = { part: 0.2, amount: 0 }
/** Figures that change all the time: their changes wait for the next regular report. */
const never: DeadBand = { part: 0, amount: Number.POSITIVE_INFINITY }

/**
 * Default dead bands, by the end of a figure's name, or of the record that holds it (in which names are zones, models…).
 * The longest match counts; without a match, `rate` does.
 */
const defaults: DeadBands = {
  C: { part: 0, amount: 5 },
  W: { part: 0.25, amount: 2 },
  Percent: { part: 0, amount: 25 },
  levelPercent: { part: 0, amount: 2 },
  dutyPercent: never,
  rpm: never,
  MHz: never,
  jPerToken: { part: 0.25, amount: 0 },
  JPerToken: { part: 0.25, amount: 0 },
  Bytes: { part: 0.1, amount: 2 ** 28 },
  uptimeS: never,
  rxBytesPerS: never,
  txBytesPerS: never,
  decodeTokensPerS: rate,
  count: never,
  underWay: never,
  bytes: never,
  waiting: { part: 0.2, amount: 0 },
  dropped: never,
  spending: never,
}
/** Fields whose change alone is no reason to report. */
const ignored = new Set(['at'])

/** The dead band of a figure, or of the figures of a record: that of the longest unit its name ends with. */
export function bandOf(name: string, bands: DeadBands): DeadBand | undefined {
  const units = Object.keys(bands).filter((unit) => name.endsWith(unit))
  const [longest] = units.sort((a, b) => b.length - a.length)
  return longest === undefined ? undefined : bands[longest]
}

/** Whether a figure in `now` has moved beyond its dead band, was added or removed. @param band of every figure in it; undefined: by name */
function hasChanged(then: FigureValue, now: FigureValue, bands: DeadBands, band?: DeadBand): boolean {
  if (typeof then === 'number' && typeof now === 'number') {
    const { part, amount } = band ?? rate
    return Math.abs(now - then) > Math.max(part * Math.abs(then), amount)
  }
  if (!isObject(then) || !isObject(now)) return (then ?? null) !== (now ?? null)
  return Object.keys({ ...then, ...now }).some(
    (name) => !ignored.has(name) && hasChanged(then[name], now[name], bands, band ?? bandOf(name, bands)),
  )
}

export const isObject = (value: FigureValue): value is { readonly [name: string]: FigureValue } =>
  typeof value === 'object' && value !== null

/** Measurements at a time of the device's monotonic clock. */
export interface Report {
  readonly atMs: number
  readonly measured: Measurements
}

/**
 * Whether to send a report: `everyMs` after the last one, or as soon as a figure has moved beyond its dead band.
 * @param last report that this receiver has accepted; undefined: none
 * @param overrides dead bands that replace the defaults
 */
export function shouldReport(last: Report | undefined, next: Report, everyMs: number, overrides: DeadBands = {}): boolean {
  if (last === undefined || next.atMs - last.atMs >= everyMs) return true
  return hasChanged(last.measured, next.measured, { ...defaults, ...overrides })
}
