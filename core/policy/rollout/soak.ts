import type { DeviceState } from '../../wire/protocol/messages.ts'
import { isConnected } from '../fleet/presence.ts'

type Seen = Pick<DeviceState, 'state' | 'birth'>

/** A device that has succeeded, while the rollout watches whether it stays healthy. */
export interface Soak {
  /** When the watch ends, by a monotonic clock. */
  readonly untilMs: number
  /** Start of its agent that it was last seen with, and its state then; undefined: never. */
  readonly seen: Seen | undefined
  /** Orderly starts since. */
  readonly starts?: number
}

/** An agent may be stopped and started once. A program that ends by itself, however orderly, is started again each time. */
const maxStarts = 1

/**
 * The device has published a state, or is lost.
 * @returns the watch that goes on, or why the device has failed: its agent ended without a goodbye and was started again, or was
 * started several times. A connection may break.
 */
export function nextSoak(soak: Soak, seen: Seen): Soak | { readonly problem: string } {
  const { seen: before, starts = 0 } = soak
  const wasStopped = before === undefined || before.state === 'disconnected'
  if (isConnected(seen.state) && !wasStopped && seen.birth > before.birth)
    return { problem: 'its agent ended without a goodbye, and was started again, soon after its success' }
  const isStart = before !== undefined && seen.birth > before.birth
  if (isStart && starts >= maxStarts) return { problem: 'its agent was started again and again soon after its success' }
  return { ...soak, seen, starts: starts + (isStart ? 1 : 0) }
}

/** The watch is over. @returns why the device has failed; undefined: it has not */
export const soakProblem = ({ seen }: Soak): string | undefined =>
  seen?.state === 'lost' ? 'it was lost soon after its success, and has not returned' : undefined
