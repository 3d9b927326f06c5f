import { collectDefaultMetrics, Registry } from 'prom-client'

/**
 * Not shown: gauges that list every open file and handle at each scrape, which takes as long as the fleet is large (40 ms of a
 * core with 10,000 devices), and those named like counters, which Prometheus' tools reject.
 */
const hidden = [
  'process_open_fds',
  ...['handles', 'requests', 'resources'].flatMap((what) => [`nodejs_active_${what}`, `nodejs_active_${what}_total`]),
]

let registry: Registry | undefined

/** CPU, memory, garbage collection and event loop of this process, measured from the first call on. */
export function processMetrics(): Registry {
  if (!registry) {
    registry = new Registry()
    collectDefaultMetrics({ register: registry })
    for (const name of hidden) registry.removeSingleMetric(name)
  }
  return registry
}
