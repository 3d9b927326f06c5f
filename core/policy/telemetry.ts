import type { DeviceTelemetry } from '../protocol/messages.ts'
import { hasMoved } from './hat/chunk-size.ts'

/** What a device measures of itself: an object per source. */
export type Measurements = Pick<DeviceTelemetry, 'link' | 'speed'>

type Value = number | string | null | { readonly [name: string]: Value }

/** Whether anything in it has moved by more than a fifth, came or went. */
function hasChanged(then: Value, now: Value): boolean {
  if (typeof then === 'number' && typeof now === 'number') return hasMoved(then, now)
  if (!isObject(then) || !isObject(now)) return then !== now
  return Object.keys({ ...then, ...now }).some((name) => hasChanged(then[name] ?? null, now[name] ?? null))
}

const isObject = (value: Value): value is { readonly [name: string]: Value } => typeof value === 'object' && value !== null

/**
 * Whether telemetry is worth a message now.
 * @param told what was said last, to those who listen now; undefined: nothing
 */
export function shallReport(
  told: { readonly atMs: number; readonly measured: Measurements } | undefined,
  measured: Measurements,
  nowMs: number,
  everyMs: number,
): boolean {
  return told === undefined || nowMs - told.atMs >= everyMs || hasChanged(told.measured, measured)
}
