import { version } from '../../core/kit/base/version.ts'
import { readingTokensPerS } from '../../core/policy/serving/reader.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import { type AgentMetrics, createAgentMetrics } from '../metrics/agent-metrics.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { ConditionMonitor } from '../telemetry/condition-monitor.ts'
import { measurementsOf } from '../telemetry/measurements.ts'
import type { Base } from './base.ts'

/** The agent's metrics: of its answers, and of what it samples for the telemetry. */
export const openMetrics = (
  { config }: Base,
  models: ActiveModels,
  links: BridgeLinks,
  monitor: ConditionMonitor,
): AgentMetrics =>
  createAgentMetrics(readingTokensPerS, {
    device: config.id,
    version,
    provider: () => (models.computing?.llm ?? models.computing?.slm)?.provider,
    measure: () => measurementsOf(links.best.figures, models.speed, monitor.latest),
  })
