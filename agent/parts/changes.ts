import type { GetOptionsOf } from '../bundles/get.ts'
import { configApply } from '../config-layer/config-apply.ts'
import type { FleetConfig } from '../config-layer/fleet-config.ts'
import type { JobHandlers } from '../jobs/job-handler.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { Software } from '../software/software.ts'
import { softwareInstall } from '../software/software-install.ts'
import type { ChangeOnTrial, RestartKind } from '../trial/change.ts'
import { healthProblem } from '../trial/health-gate.ts'
import type { Answering } from './answering.ts'
import type { Base } from './base.ts'

/** What jobs may change that needs another start of the agent. */
export interface Changes {
  readonly fleetConfig?: FleetConfig
  /** Absent: the agent was not started by jetson/launch, so that nothing would start another release. */
  readonly software?: Software | undefined
}

/** The part that carries such changes out. */
export interface Changing {
  readonly handlers: JobHandlers
  /** Resolves when the agent must be started again. */
  readonly restart: Promise<RestartKind>
  /** Decides whether the changes of this start are kept. */
  start(): void
}

/** The jobs that change configuration and software, and the health gate of what this start has on trial. */
export function openChanges(
  { config, clock, closers, logger }: Base,
  models: Pick<ActiveModels, 'unopened'>,
  links: BridgeLinks,
  answering: Answering,
  getOptions: GetOptionsOf,
  { fleetConfig, software }: Changes,
): Changing {
  const closing = new AbortController()
  let restart: (kind: RestartKind) => void = () => {}
  const restarting = new Promise<RestartKind>((resolve) => {
    restart = resolve
  })
  const handlers: JobHandlers = {
    ...(fleetConfig && { 'config.apply': configApply({ config: fleetConfig, restart: () => restart('configuration'), clock }) }),
    ...(software && {
      'software.install': softwareInstall({
        software,
        trustedKeys: config.trustedKeys ?? [],
        getOptions,
        restart: () => restart('software'),
        clock,
      }),
    }),
  }

  /** @returns whether the change was kept */
  async function decide({ kind, probe, keep, undo }: ChangeOnTrial): Promise<boolean> {
    const endpoint = () => answering.llm?.endpoint ?? answering.slm
    const gate = { hasBridge: () => links.hasBridge, endpoint, limits: config.limits, clock }
    // A release may be what opens the model again, and options may be what keeps it closed.
    const unopened = kind === 'configuration' ? models.unopened?.message : undefined
    const problem = unopened ?? (await healthProblem(gate, probe, closing.signal))
    if (problem === undefined) {
      keep()
      logger.info({ change: kind }, 'change kept')
      return true
    }
    logger.error({ change: kind, problem }, 'change undone')
    undo(problem)
    restart(kind)
    return false
  }

  /** Both may be on trial: a job may have come while the agent ended its work for the other. */
  async function decideAll(): Promise<void> {
    for (const owner of [software, fleetConfig]) if (owner?.onTrial && !(await decide(owner.onTrial))) return
  }

  return {
    handlers,
    restart: restarting,
    start() {
      const deciding = decideAll().catch((err: unknown) => {
        if (!closing.signal.aborted) logger.error({ err }, 'change not decided')
      })
      closers.push(async () => {
        closing.abort()
        await deciding
      })
    },
  }
}
