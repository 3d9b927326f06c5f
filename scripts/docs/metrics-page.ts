import { createBridgeMetrics } from '../../cloud-bridge/metrics/bridge-metrics.ts'

/** docs/metrics.md: every metric of the bridge but those of its process. */
export function metricsPage(): string {
  const metrics = createBridgeMetrics(1)
  metrics.collect({
    version: '',
    modelIds: [],
    computing: () => [],
    sessions: () => 0,
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
  const rows = metrics
    .list()
    .map(
      ({ name, type, labels, help }) =>
        `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(' ')} | ${help} |`,
    )
  return `# Metrics of the bridge

Generated from [cloud-bridge/metrics](../cloud-bridge/metrics) by \`npm run docs\`.

\`GET /metrics\` gives them in Prometheus' text format, with those of the process (\`process_…\`, \`nodejs_…\`). Once devices are enrolled
it needs a key of the role viewer, which Prometheus reads from a file:

\`\`\`yaml
scrape_configs:
  - job_name: brim
    scheme: https
    authorization: { credentials_file: /etc/prometheus/brim.key }
    static_configs: [{ targets: ['bridge.example:7070'] }]
\`\`\`

Names are as Prometheus and OpenMetrics advise (base units, \`_total\` for counters), and as vLLM's, buckets included, where vLLM measures
the same. [grafana-dashboard.json](grafana-dashboard.json) shows them: import it in Grafana and choose the data source.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
${rows.join('\n')}
`
}
