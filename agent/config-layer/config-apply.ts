import type { Clock } from '../../core/kit/base/clock.ts'
import { ConfigInput } from '../../core/wire/protocol/jobs.ts'
import { type JobHandler, parseInput, RestartRequired } from '../jobs/job-handler.ts'
import { isKept } from '../jobs/wait-for-trial.ts'
import type { FleetConfig } from './fleet-config.ts'

export interface ConfigApplyOptions {
  readonly config: FleetConfig
  /** Starts the agent again once nothing is in progress. */
  readonly restart: () => void
  readonly clock: Clock
}

/**
 * `config.apply`: replaces what the fleet has set on this device. Where that changes an effective option, the agent starts again;
 * the next attempt of the job reports how it is.
 */
export function configApply({ config, restart, clock }: ConfigApplyOptions): JobHandler {
  return async (input, _emitText, signal, { id }) => {
    const { settings, probe } = parseInput(ConfigInput, input)
    const names = config.check(settings)
    const wasKept = await isKept(() => config.nextStep(id, settings), clock, signal)
    if (wasKept) return { ...names, restarted: config.hasStartedFor(id) }
    if (!config.begin(id, settings, probe)) return { ...names, restarted: false }
    restart()
    throw new RestartRequired()
  }
}
