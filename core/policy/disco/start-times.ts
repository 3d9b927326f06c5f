import type { DeviceMode } from '../../base/answer-modes.ts'
import type { PreferredSide } from './controller-plan.ts'
import { cheaperSide, type SideCosts, type Work } from './costs.ts'
import { type DispatchState, dispatchOf } from './dispatch.ts'
import type { Dispatch } from './state.ts'

/** What decides when the sides of one answer start. */
export interface StartState {
  /** Sides that can answer: at least one. */
  readonly can: { readonly device: boolean; readonly server: boolean }
  /** Whether an answer would begin at once on the device. */
  readonly isDeviceFree: boolean
  /** Whether the server has stopped answering. */
  readonly isServerSilent: boolean
  readonly costs: SideCosts
  readonly work: Work
  /**
   * How long a reader waits for HAT or the server until the small model starts, where it may go on for them. Absent: it starts only
   * where they fail.
   */
  readonly patienceMs?: number | undefined
  /** For mode `auto`, where both sides can answer. */
  dispatch(): DispatchState
}

const never = Number.POSITIVE_INFINITY

/** When each side starts, by the mode of the request. */
export function startTimes(mode: DeviceMode, state: StartState): Dispatch {
  const { can, isDeviceFree, isServerSilent, costs, work, patienceMs = never, dispatch } = state
  if (!can.device) return { device: never, server: 0 }
  if (!can.server) return { device: 0, server: never }
  if (!isDeviceFree) return { device: never, server: 0 }
  // The small model goes on only where HAT or the server fails, or is late.
  if (mode === 'private' || mode === 'cloud') return { device: patienceMs, server: 0 }
  if (mode === 'fast') return { device: 0, server: 0 }
  if (mode === 'cheap') {
    const cheaper = cheaperSide(costs, work)
    return { device: cheaper === 'device' ? 0 : never, server: cheaper === 'server' ? 0 : never }
  }
  const planned = dispatchOf(work.promptTokens, dispatch())
  return isServerSilent ? { ...planned, device: 0 } : planned
}

/** The side that is to write the rest of the answer. */
export function preferredSide(mode: DeviceMode, { device, server }: SideCosts): PreferredSide | undefined {
  if (mode === 'private' || mode === 'cloud') return { side: 'server', reason: 'return' }
  if (mode === 'fast' || !device || !server || device.output === server.output) return undefined
  return { side: device.output < server.output ? 'device' : 'server', reason: 'cost' }
}
