import { clockIsSet } from '../../core/kit/base/clock.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { SteadyWallClock, systemClocks } from '../../core/kit/base/steady-wall-clock.ts'
import { createRemote, type Remote } from '../remote/commands.ts'
import type { LogOutbox } from '../telemetry/log-outbox.ts'
import type { Base } from './base.ts'
import type { AgentState } from './state.ts'

const readClocksMs = 60_000

/** The commands of operators. */
export function openRemote({ clock, closers, logger }: Base, { store }: AgentState, log: LogOutbox): Remote {
  // A command must not expire because the clock has jumped.
  const steady = new SteadyWallClock({ read: systemClocks(), stored: undefined, onDoubt: () => {}, onBelieved: () => {} })
  // A jump counts from when it is seen.
  closers.push(repeatEvery(clock, readClocksMs, () => void steady.now()))
  return createRemote({
    store,
    log,
    wallMs() {
      const ms = steady.nowMs()
      return clockIsSet(ms) ? ms : undefined
    },
    logger: logger.child({ component: 'remote' }),
  })
}
