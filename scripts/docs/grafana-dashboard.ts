/** A line of a panel. */
interface Query {
  readonly expr: string
  readonly legend: string
}

interface Panel {
  readonly title: string
  readonly description: string
  readonly unit: string
  readonly queries: readonly Query[]
}

/** @param unit as Grafana names it; `tokens/s` is our own */
const panel = (title: string, unit: string, queries: readonly Query[], description = ''): Panel => ({
  title,
  unit,
  queries,
  description,
})

const rate = (metric: string) => `rate(${metric}[$__rate_interval])`
const quantiles = (metric: string): Query[] =>
  [0.5, 0.95, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (le) (${rate(`${metric}_bucket`)}))`,
    legend: `P${quantile * 100}`,
  }))
const sumOf = (metric: string, legend: string): Query => ({ expr: `sum(${rate(metric)})`, legend })
const gauge = (metric: string, legend: string): Query => ({ expr: metric, legend })
/** A line for each chosen device, and each value of these labels. */
const ofDevice = (metric: string, ...labels: readonly string[]): Query => ({
  expr: `brim_agent_${metric}{instance=~"$device"}`,
  legend: ['instance', ...labels].map((label) => `{{${label}}}`).join(' '),
})
/** A line for each chosen device, of what its histogram or a quotient of counters says. */
const perDevice = (expr: string): Query => ({ expr, legend: '{{instance}}' })
const agentRate = (metric: string) => rate(`brim_agent_${metric}{instance=~"$device"}`)
const agentQuantiles = (metric: string): Query[] =>
  [0.5, 0.95].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (le, instance) (${agentRate(`${metric}_bucket`)}))`,
    legend: `{{instance}} P${quantile * 100}`,
  }))
/** A line for each value of these labels. */
const by = (labels: readonly string[], metric: string): Query[] => [
  { expr: `sum by (${labels.join(', ')}) (${rate(metric)})`, legend: labels.map((label) => `{{${label}}}`).join(' ') },
]
const tokensPerS = 'tokens/s'

const rows: Readonly<Record<string, readonly Panel[]>> = {
  Answers: [
    panel('Requests', 'reqps', by(['finished_reason'], 'brim_requests_total')),
    panel('Requests in progress', 'short', [
      { expr: 'sum(brim_num_requests_running)', legend: 'running' },
      { expr: 'sum(brim_num_requests_waiting)', legend: 'waiting for the first token' },
    ]),
    panel('Time to the first token', 's', quantiles('brim_time_to_first_token_seconds')),
    panel('Time between tokens', 's', quantiles('brim_inter_token_latency_seconds')),
    panel(
      'Throughput',
      tokensPerS,
      [sumOf('brim_generation_tokens_total', 'raw'), sumOf('brim_effective_tokens_total', 'effective')],
      'Effective: tokens weighted by how soon they are read (TokenFlow Eq. 1), counted when their answers end.',
    ),
    panel(
      'QoS',
      tokensPerS,
      [
        {
          expr: ['brim_effective_tokens_total', 'brim_time_to_first_token_seconds_sum', 'brim_reader_stall_seconds_total']
            .map((metric) => `sum(${rate(metric)})`)
            .join(' - '),
          legend: 'QoS',
        },
      ],
      'TokenFlow Eq. 2 with λ = μ = 1: effective tokens, less one per second before first tokens and per second of stalls.',
    ),
    panel('Stalls of readers', 's', [sumOf('brim_reader_stall_seconds_total', 'seconds stalled per second')]),
  ],
  Sketches: [
    panel(
      'Plans',
      'reqps',
      by(['mode', 'reason'], 'brim_sketch_plans_total'),
      'Answers that might be sketched, by plan and by why the model has written all or some of it.',
    ),
    panel('Sentences of sketches', 'short', by(['writer'], 'brim_sketch_sentences_total')),
    panel('Tokens for sketched answers', tokensPerS, by(['side'], 'brim_sketch_tokens_total')),
    panel('Expansion', 's', quantiles('brim_sketch_expansion_seconds')),
    panel('Confidence', 'percentunit', quantiles('brim_sketch_confidence')),
  ],
  Engine: [
    panel('Step', 's', quantiles('brim_step_duration_seconds')),
    panel(
      'Streams and rows of a step, mean',
      'short',
      ['streams', 'rows'].map((what) => ({
        expr: `${rate(`brim_step_${what}_sum`)} / ${rate(`brim_step_${what}_count`)}`,
        legend: what,
      })),
    ),
    panel('KV memory', 'bytes', [gauge('brim_kv_cache_bytes', '{{holder}}'), gauge('brim_kv_cache_budget_bytes', 'budget')]),
    panel('Slow tier', 'bytes', [gauge('brim_slow_kv_bytes', 'in use'), gauge('brim_slow_kv_budget_bytes', 'budget')]),
    panel('Transfers between the tiers', 'Bps', [
      sumOf('brim_kv_saved_bytes_total', 'saved'),
      sumOf('brim_kv_loaded_bytes_total', 'loaded'),
    ]),
    panel('Preemptions', 'ops', [sumOf('brim_num_preemptions_total', 'preemptions')]),
    panel('HAT sessions', 'short', [gauge('brim_hat_sessions', 'sessions')]),
  ],
  Fleet: [
    panel('Devices', 'short', [gauge('brim_devices', '{{state}}')]),
    panel('Devices by what computes', 'short', [gauge('brim_devices_computing', '{{provider}}')]),
    panel('Jobs', 'short', [gauge('brim_jobs', '{{state}}')]),
    panel('MQTT messages', 'mps', [sumOf('brim_mqtt_messages_received_total', 'received')]),
    panel('Process', 'bytes', [gauge('process_resident_memory_bytes{job="brim"}', 'resident memory')]),
  ],
  Device: [
    panel('Time to the first token', 's', agentQuantiles('time_to_first_token_seconds')),
    panel('Time between tokens', 's', agentQuantiles('inter_token_latency_seconds')),
    panel('Speed', tokensPerS, [ofDevice('decode_tokens_per_second', 'model_name')]),
    panel(
      'Accept length',
      'short',
      [perDevice(`${agentRate('accept_length_sum')} / ${agentRate('accept_length_count')}`)],
      'Tokens per verification, the mean of ended answers.',
    ),
    panel('Bytes of answers', 'Bps', [
      { expr: agentRate('hat_sent_bytes_total'), legend: '{{instance}} sent' },
      { expr: agentRate('hat_received_bytes_total'), legend: '{{instance}} received' },
    ]),
    panel('Link to the bridge', 'Bps', [ofDevice('link_bytes_per_second', 'direction')]),
    panel('Temperature', 'celsius', [ofDevice('temperature_celsius', 'zone')]),
    panel('Power of rails', 'watt', [ofDevice('rail_watts', 'rail')]),
    panel(
      'Power and throttling',
      'watt',
      [ofDevice('power_watts'), ofDevice('throttled')],
      'The lower line is 1 while the device is throttled.',
    ),
    panel('Load', 'percentunit', [ofDevice('load_ratio', 'unit')]),
    panel('Memory', 'bytes', [ofDevice('memory_bytes', 'kind')]),
    panel('Battery', 'percentunit', [ofDevice('battery_ratio')]),
  ],
}

const panelWidth = 8
const panelHeight = 8
const panelsAcross = 3

/** docs/grafana-dashboard.json, in Grafana's classic JSON model (schema version 39). */
export function grafanaDashboard(): object {
  let top = 0
  let id = 0
  const panels: object[] = []
  for (const [title, ofRow] of Object.entries(rows)) {
    id += 1
    panels.push({ id, type: 'row', title, collapsed: false, gridPos: { x: 0, y: top, w: 24, h: 1 }, panels: [] })
    top += 1
    ofRow.forEach((panel, at) => {
      id += 1
      const across = at % panelsAcross
      const y = top + Math.floor(at / panelsAcross) * panelHeight
      panels.push(timeSeries(panel, id, { x: across * panelWidth, y, w: panelWidth, h: panelHeight }))
    })
    top += Math.ceil(ofRow.length / panelsAcross) * panelHeight
  }
  return {
    title: 'Brim',
    uid: 'brim-bridge',
    tags: ['brim'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', hide: 0 },
        {
          ...{ name: 'device', label: 'Device', type: 'query', datasource, refresh: 2, includeAll: true, multi: true },
          query: 'label_values(brim_agent_info, instance)',
        },
      ],
    },
    panels,
  }
}

const datasource = { type: 'prometheus', uid: '$datasource' }

function timeSeries({ title, description, unit, queries }: Panel, id: number, gridPos: object): object {
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
