import type { DeviceState } from '../../protocol/messages.ts'
import { isConnected } from '../fleet/presence.ts'

type Seen = Pick<DeviceState, 'state' | 'birth'>

/** A device that has succeeded, while the rollout watches whether it lives on. */
export interface Soak {
  /** When the watch ends, by a monotonic clock. */
  readonly untilMs: number
  /** Start of its agent that it was last seen with, and its state then; undefined: never. */
  readonly seen: Seen | undefined
}

/**
 * The device has published a state, or is lost.
 * @returns the watch that goes on, or why the device has failed: its agent ended without a goodbye and was started again. An
 * agent that was stopped may start again, and a connection may break.
 */
export function nextSoak(soak: Soak, seen: Seen): Soak | { readonly problem: string } {
  const { seen: before } = soak
  const wasStopped = before === undefined || before.state === 'disconnected'
  if (isConnected(seen.state) && !wasStopped && seen.birth > before.birth)
    return { problem: 'its agent ended without a goodbye, and was started again, soon after its success' }
  return { ...soak, seen }
}

/** The watch is over. @returns why the device has failed; undefined: it has not */
export const soakProblem = ({ seen }: Soak): string | undefined =>
  seen?.state === 'lost' ? 'it was lost soon after its success, and has not returned' : undefined
