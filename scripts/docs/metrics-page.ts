import { createAgentMetrics } from '../../agent/metrics/agent-metrics.ts'
import { createBridgeMetrics } from '../../cloud-bridge/metrics/bridge-metrics.ts'
import type { ListedMetric } from '../../core/answer/metrics/declare-metrics.ts'

/** docs/metrics.md: every metric of bridge and agent but those of their processes. */
export function metricsPage(): string {
  const metrics = createBridgeMetrics(1)
  metrics.collect({
    version: '',
    modelIds: [],
    computing: () => [],
    sessions: () => 0,
    processes: () => [],
    kv: () => ({ usedBytes: 0, cachedBytes: 0, budgetBytes: 1 }),
    slowKv: () => undefined,
    transfers: { preemptions: 0, savedBytes: 0, loadedBytes: 0 },
    serving: { splits: 0, failedItems: 0 },
    devices: () => ({}),
    deviceComputing: () => ({}),
    jobs: () => ({ queued: 0, underWay: 0, dead: 0 }),
    rollouts: () => ({}),
    upstreams: () => [],
    broker: () => ({ clients: 0, received: 0, receivedBytes: 0, refusedConnects: 0 }),
  })
  const measure = () => ({ link: null, speed: { prefillTokensPerS: null, draftStepMs: null } })
  const ofAgent = createAgentMetrics(1, { device: '', version: '', provider: () => undefined, measure })
  return `# Metrics

Generated from [cloud-bridge/metrics](../cloud-bridge/metrics) and [agent/metrics](../agent/metrics) by \`npm run docs\`.

\`GET /metrics\` of a bridge, and of an agent's API, gives them in Prometheus' text format, with those of the process (\`process_…\`,
\`nodejs_…\`). Once devices are enrolled a bridge asks for a key of the role viewer, and an agent with \`--api-key-file\` for one of those
keys, which Prometheus reads from a file:

\`\`\`yaml
scrape_configs:
  - job_name: brim
    scheme: https
    authorization: { credentials_file: /etc/prometheus/brim.key }
    static_configs: [{ targets: ['bridge.example:7070'] }]
  - job_name: brim-agent
    authorization: { credentials_file: /etc/prometheus/brim-agent.key }
    static_configs: [{ targets: ['jetson-01.example:7071'] }]
\`\`\`

An agent listens on loopback only, unless \`--api-host\` names another address ([api.md](api.md)). The bridge knows each device's latest
figures too: for a fleet, its telemetry needs no port on the devices.

Names are as Prometheus and OpenMetrics advise (base units, \`_total\` for counters), and as vLLM's, buckets included, where vLLM measures
the same. [grafana-dashboard.json](grafana-dashboard.json) shows them: import it in Grafana and choose the data source.

## Bridge

${tableOf(metrics.list())}

## Agent

Those of the device are of its latest telemetry sample (\`--telemetry\`); what it cannot measure is absent.

${tableOf(ofAgent.list())}
`
}

const tableOf = (metrics: readonly ListedMetric[]) =>
  [
    '| metric | type | labels | meaning |',
    '| --- | --- | --- | --- |',
    ...metrics.map(
      ({ name, type, labels, help }) =>
        `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(' ')} | ${help} |`,
    ),
  ].join('\n')
