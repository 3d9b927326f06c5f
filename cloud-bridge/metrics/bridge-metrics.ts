import { Registry } from 'prom-client'
import { type AnswerMetrics, answerMetrics } from '../../core/answer/metrics/answer-metrics.ts'
import { declareMetrics, type ListedMetric, listMetrics } from '../../core/answer/metrics/declare-metrics.ts'
import { processMetrics } from '../../core/answer/metrics/process-metrics.ts'
import type { ServerLoad } from '../../core/policy/upstream/balancer.ts'
import { circuitStates } from '../../core/policy/upstream/circuit.ts'
import type { EndedStep } from '../serving/serving-metrics.ts'
import { AnswerSizes } from './answer-sizes.ts'
import { type SketchMetrics, sketchMetrics } from './sketch-metrics.ts'

const stepBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const rowBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
const streamBuckets = [1, 2, 4, 8, 16]

/** What the parts of the bridge have counted, read at each scrape. */
export interface MetricSources {
  readonly version: string
  /** Of the bundles that the bridge serves. */
  readonly modelIds: readonly string[]
  /** What computes each of them. */
  readonly computing: () => readonly { readonly provider: string }[]
  /** HAT sessions that are open. */
  readonly sessions: () => number
  /** Of bridges with --database; undefined: this one is alone. */
  readonly processes: (() => readonly { readonly node: string; readonly links: number; readonly sessions: number }[]) | undefined
  readonly kv: () => { readonly usedBytes: number; readonly cachedBytes: number; readonly budgetBytes: number }
  /** Undefined: there is no slow tier. */
  readonly slowKv: () => { readonly usedBytes: number; readonly budgetBytes: number } | undefined
  readonly transfers: { readonly preemptions: number; readonly savedBytes: number; readonly loadedBytes: number }
  readonly serving: { readonly splits: number; readonly failedItems: number }
  /** Devices by state, jobs by state. */
  readonly devices: () => Readonly<Record<string, number>>
  readonly deviceComputing: () => Readonly<Record<string, number>>
  readonly jobs: () => { readonly queued: number; readonly underWay: number; readonly dead: number }
  /** Devices of rollouts that have not ended, by their state there. */
  readonly rollouts: () => Readonly<Record<string, number>>
  /** Other servers that answer. */
  readonly upstreams: () => readonly (Pick<ServerLoad, 'outstanding' | 'requests' | 'failures' | 'state'> & { url: string })[]
  /** Undefined: an external broker, which has metrics of its own. */
  readonly broker:
    | (() => {
        readonly clients: number
        readonly received: number
        readonly receivedBytes: number
        readonly refusedConnects: number
      })
    | undefined
}

export interface BridgeMetrics extends AnswerMetrics, SketchMetrics {
  /** Of the bridge's own answers and of HAT sessions. */
  readonly sizes: AnswerSizes
  onStep(step: EndedStep): void
  /** Reads these at each scrape, in place of those before. */
  collect(sources: MetricSources): void
  /** What is measured, in alphabetical order, without values. */
  list(): readonly ListedMetric[]
  /** All metrics in Prometheus' text format 0.0.4. */
  text(): Promise<string>
}

/** The metrics of one bridge, named as Prometheus and OpenMetrics advise, and as vLLM names what it has too. */
export function createBridgeMetrics(defaultTokensPerS: number): BridgeMetrics {
  const registry = new Registry()
  const sizes = new AnswerSizes()
  const answers = answerMetrics(registry, defaultTokensPerS, 'brim', sizes.add)
  const { histogram } = declareMetrics(registry)
  const duration = histogram('brim_step_duration_seconds', 'Computing time of a step, through all stages.', stepBuckets)
  const rows = histogram('brim_step_rows', 'Rows of a step: tokens of whole-model streams and of HAT sessions.', rowBuckets)
  const streams = histogram('brim_step_streams', 'Streams that a step serves.', streamBuckets)
  const sketches = sketchMetrics(registry)
  const own = new Set(registry.getMetricsAsArray().map(({ name }) => name))
  return {
    ...answers,
    ...sketches,
    sizes,
    onStep({ computeMs, tokens, items }) {
      duration.observe(computeMs / 1_000)
      rows.observe(tokens)
      streams.observe(items)
    },
    collect(sources) {
      for (const { name } of registry.getMetricsAsArray()) if (!own.has(name)) registry.removeSingleMetric(name)
      collectAll(registry, sources)
    },
    list: () => listMetrics(registry),
    text: async () => `${await registry.metrics()}\n${await processMetrics().metrics()}`,
  }
}

function collectAll(registry: Registry, sources: MetricSources): void {
  const { version, modelIds, computing, serving, sessions, kv, slowKv, transfers, jobs, rollouts, upstreams, broker } = sources
  const { collectedGauge: gauge, collectedCounter: counter, collectedInfo: info } = declareMetrics(registry)
  info('brim_build_info', '', ['version'], () => [{ version }])
  info('brim_model_info', ': a model that the bridge serves', ['model_id'], () => modelIds.map((model_id) => ({ model_id })))
  info('brim_computing_info', ': what computes a model that the bridge serves', ['model_id', 'provider'], () =>
    computing().map(({ provider }, at) => ({ model_id: modelIds[at] ?? '', provider })),
  )
  gauge('brim_hat_sessions', 'Open HAT sessions of devices.', sessions)
  const { processes } = sources
  if (processes) {
    const byNode = (field: 'links' | 'sessions') => () => Object.fromEntries(processes().map((each) => [each.node, each[field]]))
    gauge('brim_process_links', 'Devices connected to a process of this bridge.', byNode('links'), 'process')
    gauge('brim_process_sessions', 'Open HAT sessions at a process of this bridge.', byNode('sessions'), 'process')
  }
  const ofStreams = () => kv().usedBytes - kv().cachedBytes
  gauge(
    'brim_kv_cache_bytes',
    'KV memory of the fast tier, by what holds it: streams or cached prefixes.',
    () => ({ streams: ofStreams(), prefixes: kv().cachedBytes }),
    'holder',
  )
  gauge('brim_kv_cache_budget_bytes', 'KV memory of the fast tier.', () => kv().budgetBytes)
  gauge('brim_kv_cache_usage_ratio', 'Part of the fast tier that is in use, 0 to 1.', () => kv().usedBytes / kv().budgetBytes)
  gauge('brim_slow_kv_bytes', 'KV of the slow tier.', () => slowKv()?.usedBytes ?? 0)
  gauge('brim_slow_kv_budget_bytes', 'Size of the slow tier; 0 without one.', () => slowKv()?.budgetBytes ?? 0)
  counter('brim_num_preemptions_total', 'Streams whose KV left the fast tier.', () => transfers.preemptions)
  counter('brim_kv_saved_bytes_total', 'KV written to the slow tier.', () => transfers.savedBytes)
  counter('brim_kv_loaded_bytes_total', 'KV read back from the slow tier.', () => transfers.loadedBytes)
  counter('brim_step_splits_total', 'Steps that failed and were repeated stream by stream.', () => serving.splits)
  counter('brim_step_failures_total', 'Streams whose rows failed alone, too.', () => serving.failedItems)
  gauge('brim_devices', 'Devices that have ever connected, by state.', sources.devices, 'state')
  gauge(
    'brim_devices_computing',
    'Connected devices by what computes their split model, else their small one: cpu, webgpu, cuda or other.',
    sources.deviceComputing,
    'provider',
  )
  const jobCounts = () => {
    const { queued, underWay, dead } = jobs()
    return { queued, under_way: underWay, dead }
  }
  gauge('brim_jobs', 'Jobs that have not ended, and those that failed for good (at most 10,000 are counted).', jobCounts, 'state')
  gauge('brim_rollout_devices', 'Devices of the rollouts that have not ended, by their state there.', rollouts, 'state')
  const byUrl = (field: 'outstanding' | 'requests' | 'failures') => () =>
    Object.fromEntries(upstreams().map((each) => [each.url, each[field]]))
  const states = () => Object.fromEntries(upstreams().map(({ url, state }) => [url, circuitStates.indexOf(state)]))
  const prefix = 'brim_bridge_upstream'
  gauge(`${prefix}_outstanding`, 'Requests that an upstream is answering.', byUrl('outstanding'), 'upstream')
  counter(`${prefix}_requests_total`, 'Requests sent to an upstream, each attempt counted.', byUrl('requests'), 'upstream')
  counter(`${prefix}_failures_total`, 'Of these, the failed and the refused ones (status 429).', byUrl('failures'), 'upstream')
  gauge(
    `${prefix}_circuit_state`,
    'Whether an upstream gets requests: 0, it does; 1, on trial or not for all models; 2, none, as it failed or asked for a wait.',
    states,
    'upstream',
  )
  if (!broker) return
  gauge('brim_mqtt_clients', 'Clients that are connected to the embedded broker.', () => broker().clients)
  counter('brim_mqtt_messages_received_total', 'Messages that clients have published.', () => broker().received)
  counter('brim_mqtt_received_bytes_total', 'Bytes of their payloads.', () => broker().receivedBytes)
  counter(
    'brim_mqtt_refused_connects_total',
    'Connections refused because too many clients connected at once.',
    () => broker().refusedConnects,
  )
}
