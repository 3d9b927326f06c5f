import { nextSeed } from '../../core/base/next-seed.ts'
import { seededRandom } from '../../core/base/random.ts'
import { Patience } from '../bundles/patience.ts'
import { configApply } from '../config-layer/config-apply.ts'
import type { FleetConfig } from '../config-layer/fleet-config.ts'
import type { JobHandlers } from '../jobs/job-handler.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { Software } from '../software/software.ts'
import { softwareInstall } from '../software/software-install.ts'
import type { ChangeOnTrial, RestartKind } from '../trial/change.ts'
import { healthProblem } from '../trial/health-gate.ts'
import type { Answering } from './answering.ts'
import type { Base } from './base.ts'
import { bridgeHttp } from './bridge-http.ts'

/** Time after which a silent server is given up. */
const stallMs = 30_000

/** What jobs may change that needs another start of the agent. */
export interface Changes {
  readonly fleetConfig?: FleetConfig
  /** Absent: the agent was not started by jetson/launch, so that nothing would start another release. */
  readonly software?: Software | undefined
}

/** The jobs that change configuration and software, and the health gate of what this start has on trial. */
export function openChanges(base: Base, links: BridgeLinks, answering: Answering, changes: Changes) {
  const { config, clock, closers, logger, identities } = base
  const { fleetConfig, software } = changes
  const random = seededRandom(nextSeed())
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
        bridgeOf(url) {
          const link = links.all.find((each) => each.url === url)
          return link && bridgeHttp(link, identities)
        },
        getOptions(own, signal) {
          const maxSilentMs = config.limits.downloadSilentS * 1_000
          const patience = new Patience({ isConnected: () => links.hasBridge, maxSilentMs, clock, random })
          return { own, sources: config.bundleSources, stallMs, patience, signal }
        },
        restart: () => restart('software'),
        clock,
      }),
    }),
  }

  async function decide({ kind, probe, keep, undo }: ChangeOnTrial): Promise<void> {
    const endpoint = () => answering.llm?.endpoint ?? answering.slm
    const gate = { hasBridge: () => links.hasBridge, endpoint, limits: config.limits, clock }
    const problem = await healthProblem(gate, probe, closing.signal)
    if (problem === undefined) {
      keep()
      logger.info({ change: kind }, 'change kept')
      return
    }
    logger.error({ change: kind, problem }, 'change undone')
    undo(problem)
    restart(kind)
  }

  return {
    handlers,
    /** Resolves when the agent must be started again. */
    restart: restarting,
    /** Decides whether this start's change is kept. */
    start(): void {
      const onTrial = software?.onTrial ?? fleetConfig?.onTrial
      if (!onTrial) return
      const deciding = decide(onTrial).catch((err: unknown) => {
        if (!closing.signal.aborted) logger.error({ err }, 'change not decided')
      })
      closers.push(async () => {
        closing.abort()
        await deciding
      })
    },
  }
}
