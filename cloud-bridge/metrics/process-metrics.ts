import { collectDefaultMetrics, Registry } from 'prom-client'

/** Gauges that are named like counters: Prometheus' tools reject them. */
const misnamed = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`)

let registry: Registry | undefined

/** CPU, memory, garbage collection and event loop of this process, measured from the first call on. */
export function processMetrics(): Registry {
  if (!registry) {
    registry = new Registry()
    collectDefaultMetrics({ register: registry })
    for (const name of misnamed) registry.removeSingleMetric(name)
  }
  return registry
}
