/** A line of a panel. */
interface Query {
  readonly expr: string
  readonly legend: string
}

interface Panel {
  readonly title: string
  readonly description?: string
  /** As Grafana names it; `tokens/s` is our own. */
  readonly unit: string
  readonly queries: readonly Query[]
}

interface Row {
  readonly title: string
  readonly panels: readonly Panel[]
}

const rate = (metric: string) => `rate(${metric}[$__rate_interval])`
const quantiles = (metric: string): Query[] =>
  [0.5, 0.95, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (le) (${rate(`${metric}_bucket`)}))`,
    legend: `P${quantile * 100}`,
  }))
const sumOf = (metric: string, legend: string): Query => ({ expr: `sum(${rate(metric)})`, legend })
const gauge = (metric: string, legend: string): Query => ({ expr: metric, legend })
const tokensPerS = 'tokens/s'

const rows: readonly Row[] = [
  {
    title: 'Answers',
    panels: [
      {
        title: 'Requests',
        unit: 'reqps',
        queries: [{ expr: `sum by (finished_reason) (${rate('brim_requests_total')})`, legend: '{{finished_reason}}' }],
      },
      {
        title: 'Requests in progress',
        unit: 'short',
        queries: [
          { expr: 'sum(brim_num_requests_running)', legend: 'running' },
          { expr: 'sum(brim_num_requests_waiting)', legend: 'waiting for the first token' },
        ],
      },
      { title: 'Time to the first token', unit: 's', queries: quantiles('brim_time_to_first_token_seconds') },
      { title: 'Time between tokens', unit: 's', queries: quantiles('brim_inter_token_latency_seconds') },
      {
        title: 'Throughput',
        description: 'Effective: tokens weighted by how soon they are read (TokenFlow Eq. 1), counted when their answers end.',
        unit: tokensPerS,
        queries: [sumOf('brim_generation_tokens_total', 'raw'), sumOf('brim_effective_tokens_total', 'effective')],
      },
      {
        title: 'QoS',
        description:
          'TokenFlow Eq. 2 with λ = μ = 1: effective tokens, less one per second before first tokens and per second of stalls.',
        unit: tokensPerS,
        queries: [
          {
            expr: ['brim_effective_tokens_total', 'brim_time_to_first_token_seconds_sum', 'brim_reader_stall_seconds_total']
              .map((metric) => `sum(${rate(metric)})`)
              .join(' - '),
            legend: 'QoS',
          },
        ],
      },
      {
        title: 'Stalls of readers',
        unit: 's',
        queries: [sumOf('brim_reader_stall_seconds_total', 'seconds stalled per second')],
      },
    ],
  },
  {
    title: 'Sketches',
    panels: [
      {
        title: 'Plans',
        description: 'Answers that might be sketched, by plan and by why the model has written all or some of it.',
        unit: 'reqps',
        queries: [{ expr: `sum by (mode, reason) (${rate('brim_sketch_plans_total')})`, legend: '{{mode}} {{reason}}' }],
      },
      {
        title: 'Sentences of sketches',
        unit: 'short',
        queries: [{ expr: `sum by (writer) (${rate('brim_sketch_sentences_total')})`, legend: '{{writer}}' }],
      },
      {
        title: 'Tokens for sketched answers',
        unit: tokensPerS,
        queries: [{ expr: `sum by (side) (${rate('brim_sketch_tokens_total')})`, legend: '{{side}}' }],
      },
      { title: 'Expansion', unit: 's', queries: quantiles('brim_sketch_expansion_seconds') },
      { title: 'Confidence', unit: 'percentunit', queries: quantiles('brim_sketch_confidence') },
    ],
  },
  {
    title: 'Engine',
    panels: [
      { title: 'Step', unit: 's', queries: quantiles('brim_step_duration_seconds') },
      {
        title: 'Streams and rows of a step, mean',
        unit: 'short',
        queries: ['streams', 'rows'].map((what) => ({
          expr: `${rate(`brim_step_${what}_sum`)} / ${rate(`brim_step_${what}_count`)}`,
          legend: what,
        })),
      },
      {
        title: 'KV memory',
        unit: 'bytes',
        queries: [gauge('brim_kv_cache_bytes', '{{holder}}'), gauge('brim_kv_cache_budget_bytes', 'budget')],
      },
      {
        title: 'Slow tier',
        unit: 'bytes',
        queries: [gauge('brim_slow_kv_bytes', 'in use'), gauge('brim_slow_kv_budget_bytes', 'budget')],
      },
      {
        title: 'Transfers between the tiers',
        unit: 'Bps',
        queries: [sumOf('brim_kv_saved_bytes_total', 'saved'), sumOf('brim_kv_loaded_bytes_total', 'loaded')],
      },
      { title: 'Preemptions', unit: 'ops', queries: [sumOf('brim_num_preemptions_total', 'preemptions')] },
      { title: 'HAT sessions', unit: 'short', queries: [gauge('brim_hat_sessions', 'sessions')] },
    ],
  },
  {
    title: 'Fleet',
    panels: [
      { title: 'Devices', unit: 'short', queries: [gauge('brim_devices', '{{state}}')] },
      { title: 'Jobs', unit: 'short', queries: [gauge('brim_jobs', '{{state}}')] },
      { title: 'MQTT messages', unit: 'mps', queries: [sumOf('brim_mqtt_messages_received_total', 'received')] },
      {
        title: 'Process',
        unit: 'bytes',
        queries: [gauge('process_resident_memory_bytes{job="brim"}', 'resident memory')],
      },
    ],
  },
]

const panelWidth = 8
const panelHeight = 8
const panelsAcross = 3

/** docs/grafana-dashboard.json, in Grafana's classic JSON model (schema version 39). */
export function grafanaDashboard(): object {
  let top = 0
  let id = 0
  const panels: object[] = []
  for (const row of rows) {
    id += 1
    panels.push({ id, type: 'row', title: row.title, collapsed: false, gridPos: { x: 0, y: top, w: 24, h: 1 }, panels: [] })
    top += 1
    row.panels.forEach((panel, at) => {
      id += 1
      const across = at % panelsAcross
      const y = top + Math.floor(at / panelsAcross) * panelHeight
      panels.push(timeSeries(panel, id, { x: across * panelWidth, y, w: panelWidth, h: panelHeight }))
    })
    top += Math.ceil(row.panels.length / panelsAcross) * panelHeight
  }
  return {
    title: 'Brim bridge',
    uid: 'brim-bridge',
    tags: ['brim'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: {
      list: [{ name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', hide: 0 }],
    },
    panels,
  }
}

const datasource = { type: 'prometheus', uid: '$datasource' }

function timeSeries({ title, description = '', unit, queries }: Panel, id: number, gridPos: object): object {
  return {
    id,
    type: 'timeseries',
    title,
    description,
    gridPos,
    datasource,
    fieldConfig: { defaults: { unit, custom: { fillOpacity: 10 } }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom', showLegend: true }, tooltip: { mode: 'multi', sort: 'desc' } },
    targets: queries.map(({ expr, legend }, at) => ({ refId: 'ABCDEF'[at], datasource, expr, legendFormat: legend })),
  }
}
