import { isDeepStrictEqual } from 'node:util'

/** A JSON object: a sample, a section of one, or a difference. */
export type Fields = Readonly<Record<string, unknown>>

/**
 * The difference between two samples: the fields that differ, objects field by field, everything else as a whole. It cannot
 * express that a field has vanished.
 * @returns undefined if a field of `base` is missing in `now`
 */
export function changesOf(base: Fields, now: Fields): Fields | undefined {
  const changes: [string, unknown][] = []
  for (const name of Object.keys(base)) if (base[name] !== undefined && own(now, name) === undefined) return undefined
  for (const name of Object.keys(now)) {
    const [then, value] = [own(base, name), now[name]]
    // Samples that are rebuilt from deltas share what has not changed.
    if (value === undefined || then === value) continue
    if (isFields(then) && isFields(value)) {
      const change = changesOf(then, value)
      if (change === undefined) return undefined
      if (Object.keys(change).length > 0) changes.push([name, change])
    } else if (!isDeepStrictEqual(then, value)) changes.push([name, value])
  }
  return Object.fromEntries(changes)
}

/** The sample that `changes` was computed from. */
export function withChanges(base: Fields, changes: Fields): Fields {
  const changed: Record<string, unknown> = { ...base }
  for (const [name, change] of Object.entries(changes)) {
    const then = own(base, name)
    const value = isFields(then) && isFields(change) ? withChanges(then, change) : change
    // An assignment to `__proto__` would replace the prototype.
    if (name === '__proto__') Object.defineProperty(changed, name, { value, enumerable: true })
    else changed[name] = value
  }
  return changed
}

/** A sample as it is expected `elapsedS` later: its uptime has grown, so a difference need not say so. */
export function expectedAfter(sample: Fields, elapsedS: number): Fields {
  const { device } = sample
  if (!isFields(device) || typeof device.uptimeS !== 'number') return sample
  return { ...sample, device: { ...device, uptimeS: Math.max(0, Math.round(device.uptimeS + elapsedS)) } }
}

/** Without the unknown figures of each section. A section that is null itself stays: it says that the device has no such part. */
export function withoutUnknown(sample: Fields): Fields {
  return Object.fromEntries(
    Object.entries(sample).map(([name, section]) => [name, isFields(section) ? pruned(section) : section]),
  )
}

const pruned = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => (value == null ? [] : [[name, isFields(value) ? pruned(value) : value]])),
  )

export const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Names come from messages: one like `__proto__` must not find an inherited value. */
const own = (fields: Fields, name: string): unknown => (Object.hasOwn(fields, name) ? fields[name] : undefined)
