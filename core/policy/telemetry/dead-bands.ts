import type { DeviceTelemetry } from '../../protocol/messages.ts'

/** What a device measures of itself: an object per source. */
export type Measurements = Omit<DeviceTelemetry, 'v' | 'at' | 'birth' | 'clockIsSet' | 'replayed'>

type Value = number | string | boolean | null | undefined | readonly Value[] | { readonly [name: string]: Value }

/** A figure has moved when it differs by more than both: its part of what it was, and its amount. */
export interface DeadBand {
  readonly part: number
  readonly amount: number
}
/** By name of a figure, or the end of it: its unit. */
export type DeadBands = Readonly<Record<string, DeadBand>>

const rate: DeadBand = { part: 0.2, amount: 0 }
/** Figures that never rest: they come with the next regular report. */
const never: DeadBand = { part: 0, amount: Number.POSITIVE_INFINITY }

/**
 * By the unit that ends a figure's name, or that of the record it stands in (whose names are not ours); the longest that
 * fits counts. Units without a line: `rate`.
 */
const usual: DeadBands = {
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
}
/** Words that follow from others. */
const mute = new Set(['at'])

function bandOf(name: string, bands: DeadBands): DeadBand | undefined {
  const units = Object.keys(bands).filter((unit) => name.endsWith(unit))
  const [longest] = units.sort((a, b) => b.length - a.length)
  return longest === undefined ? undefined : bands[longest]
}

/** Whether anything in it has moved beyond its dead band, came or went. @param band of everything in it; undefined: by name */
function hasChanged(then: Value, now: Value, bands: DeadBands, band?: DeadBand): boolean {
  if (typeof then === 'number' && typeof now === 'number') {
    const { part, amount } = band ?? rate
    return Math.abs(now - then) > Math.max(part * Math.abs(then), amount)
  }
  if (!isObject(then) || !isObject(now)) return (then ?? null) !== (now ?? null)
  return Object.keys({ ...then, ...now }).some(
    (name) => !mute.has(name) && hasChanged(then[name], now[name], bands, band ?? bandOf(name, bands)),
  )
}

const isObject = (value: Value): value is { readonly [name: string]: Value } => typeof value === 'object' && value !== null

/**
 * Whether telemetry is worth a message now.
 * @param told what was said last, to those who listen now; undefined: nothing
 * @param own in place of the usual dead bands of these names
 */
export function shouldReport(
  told: { readonly atMs: number; readonly measured: Measurements } | undefined,
  measured: Measurements,
  nowMs: number,
  everyMs: number,
  own: DeadBands = {},
): boolean {
  return told === undefined || nowMs - told.atMs >= everyMs || hasChanged(told.measured, measured, { ...usual, ...own })
}
