import { version } from '../../core/kit/base/version.ts'
import type { ControlBroker } from '../broker/control-broker.ts'
import type { Rollouts } from '../rollout/rollouts.ts'
import type { Base } from './base.ts'
import type { PrimaryNode } from './primary-node.ts'
import type { OpenServing } from './serving.ts'
import type { FleetWork } from './work.ts'

/** What the metrics read of the parts whenever they are asked for. */
export function collectMetrics(
  { metrics }: Base,
  { serving, sessions, modelIds, computing, answers }: OpenServing,
  { devices, jobs }: FleetWork,
  rollouts: Rollouts,
  broker: ControlBroker,
  node: Pick<PrimaryNode, 'describe'> | undefined,
): void {
  metrics.collect({
    version,
    modelIds,
    computing,
    sessions: () => sessions.count,
    processes: node && (() => node.describe().loads),
    kv: () => serving.memory,
    slowKv: () => serving.slow,
    transfers: serving.transfers,
    serving: serving.metrics,
    devices: devices.counts,
    deviceComputing: devices.computing,
    jobs: jobs.store.counts,
    rollouts: rollouts.counts,
    upstreams: answers.upstreams,
    broker: broker.counts,
  })
}
