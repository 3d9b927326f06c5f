import { changesOf, expectedAfter, type Fields, withChanges } from '../../core/wire/protocol/telemetry-delta.ts'

/**
 * A sample as text, its difference from an earlier one of the same device: as objects, the samples of a fleet would take several times
 * the memory, and most of the work of the garbage collector.
 */
interface Difference {
  /** After the base, by the device's clock. */
  readonly ms: number
  /** The fields that differ, without `at`. */
  readonly set: Fields
}

/** A sample, of which only the time is known. */
export type Timed = Fields & { readonly at: string }

/** @returns undefined if the difference does not tell the sample */
export function packSample(base: Timed, sample: Timed): string | undefined {
  const ms = Date.parse(sample.at) - Date.parse(base.at)
  if (timeAfter(base.at, ms) !== sample.at) return undefined
  const changes = changesOf(expectedAfter(base, ms / 1_000), sample)
  if (!changes) return undefined
  const { at: _, ...set } = changes
  return JSON.stringify({ ms, set } satisfies Difference)
}

/** @param packed as `packSample` made it of the same base */
export function unpackSample(base: Timed, packed: string): Timed {
  const { ms, set } = JSON.parse(packed) as Difference
  return { ...withChanges(expectedAfter(base, ms / 1_000), set), at: timeAfter(base.at, ms) }
}

const timeAfter = (at: string, ms: number) => new Date(Date.parse(at) + ms).toISOString()
