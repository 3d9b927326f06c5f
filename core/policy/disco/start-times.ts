import type { DeviceMode } from '../../kit/base/answer-modes.ts'
import type { PreferredSide, SideWork } from './controller-plan.ts'
import { cheaperSide, type SideCosts } from './costs.ts'
import { type DispatchState, dispatchOf } from './dispatch.ts'
import type { StartDelays } from './state.ts'

/** What decides when the sides of one answer start. */
export interface StartState {
  /** Sides that can answer: at least one. */
  readonly can: { readonly local: boolean; readonly remote: boolean }
  /** Whether an answer would begin at once on the local side. */
  readonly isLocalFree: boolean
  /** Whether the remote side has stopped answering. */
  readonly isRemoteSilent: boolean
  readonly costs: SideCosts
  readonly work: SideWork
  /**
   * How long a reader waits for HAT or the server until the small model starts, where it may go on for them. Absent: it starts only
   * where they fail.
   */
  readonly patienceMs?: number | undefined
  /** For mode `auto`, where both sides can answer. */
  dispatch(): DispatchState
}

const never = Number.POSITIVE_INFINITY

/** Modes whose answers are the remote side's: the small model goes on only where that fails, or is late. */
export const remoteModes: ReadonlySet<DeviceMode> = new Set(['private', 'cloud', 'sketch'])

/** When each side starts, by the mode of the request. */
export function startTimes(mode: DeviceMode, state: StartState): StartDelays {
  const { can, isLocalFree, isRemoteSilent, costs, work, patienceMs = never, dispatch } = state
  if (!can.local) return { local: never, remote: 0 }
  if (!can.remote) return { local: 0, remote: never }
  if (!isLocalFree) return { local: never, remote: 0 }
  if (remoteModes.has(mode)) return { local: patienceMs, remote: 0 }
  if (mode === 'fast') return { local: 0, remote: 0 }
  if (mode === 'cheap') {
    const cheaper = cheaperSide(costs, work)
    return { local: cheaper === 'local' ? 0 : never, remote: cheaper === 'remote' ? 0 : never }
  }
  const planned = dispatchOf(work.promptTokens, dispatch())
  return isRemoteSilent ? { ...planned, local: 0 } : planned
}

/** The side that is to write the rest of the answer. */
export function preferredSide(mode: DeviceMode, { local, remote }: SideCosts): PreferredSide | undefined {
  if (remoteModes.has(mode)) return { side: 'remote', reason: 'return' }
  if (mode === 'fast' || !local || !remote || local.output === remote.output) return undefined
  return { side: local.output < remote.output ? 'local' : 'remote', reason: 'cost' }
}
