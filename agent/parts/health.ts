import { clockIsSet } from '../../core/kit/base/clock.ts'
import { version } from '../../core/kit/base/version.ts'
import type { HealthOptions } from '../api/health.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { AgentMetrics } from '../metrics/agent-metrics.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { Remote } from '../remote/commands.ts'
import type { ConditionMonitor } from '../telemetry/condition-monitor.ts'
import type { Answering } from './answering.ts'
import type { AnswerDispatch } from './dispatch.ts'
import type { DeviceWork } from './work.ts'

interface HealthParts {
  readonly metrics: AgentMetrics
  readonly models: Pick<ActiveModels, 'modelId' | 'computing'>
  readonly answering: Pick<Answering, 'slm'>
  readonly dispatch: Pick<AnswerDispatch, 'health' | 'problem' | 'needsLink'>
  readonly links: Pick<BridgeLinks, 'status' | 'problems'>
  readonly work: Pick<DeviceWork, 'jobs' | 'profiles'>
  readonly remote: Pick<Remote, 'isDraining'>
  readonly monitor: Pick<ConditionMonitor, 'latest'>
}

/** What the agent's /health, /condition, /ready and /metrics say. @param device name of this device */
export const healthOf = (
  device: string,
  { metrics, models, answering, dispatch, links, work, remote, monitor }: HealthParts,
): Omit<HealthOptions, 'spending' | 'disclosures'> => ({
  metrics,
  condition: () => monitor.latest,
  health: () => ({
    device,
    version,
    modelId: models.modelId ?? null,
    computing: models.computing ?? null,
    slm: answering.slm?.model.name ?? null,
    profile: work.profiles.last,
    clockIsSet: clockIsSet(),
    draining: remote.isDraining,
    storageFailure: work.jobs.storageFailure,
    ...dispatch.health,
    ...links.status,
  }),
  problems: () => [...(dispatch.problem ? [dispatch.problem] : []), ...(dispatch.needsLink ? links.problems : [])],
})
