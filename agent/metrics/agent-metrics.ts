import { Registry } from 'prom-client'
import type { EndpointFigures } from '../../core/answer/endpoint/figures.ts'
import { type AnswerMetrics, answerMetrics } from '../../core/answer/metrics/answer-metrics.ts'
import { declareMetrics, type ListedMetric, listMetrics } from '../../core/answer/metrics/declare-metrics.ts'
import { processMetrics } from '../../core/answer/metrics/process-metrics.ts'
import type { Measurements } from '../../core/policy/telemetry/dead-bands.ts'
import { deviceMetrics } from './device-metrics.ts'

const prefix = 'brim_agent'
const lengthBuckets = [1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8]

/** What the agent has of itself, read at each scrape. */
export interface AgentMetricSources {
  readonly device: string
  readonly version: string
  /** What computes its split model, else its small one; undefined: it has none. */
  readonly provider: () => string | undefined
  /** The latest sample of the telemetry. */
  readonly measure: () => Measurements
}

export interface AgentMetrics extends AnswerMetrics {
  list(): readonly ListedMetric[]
  /** All metrics in Prometheus' text format 0.0.4. */
  text(): Promise<string>
}

/**
 * The metrics of one agent: of its answers, as those of a bridge, of HAT, and of the device.
 * @param defaultTokensPerS assumed for readers that state no rate
 */
export function createAgentMetrics(defaultTokensPerS: number, sources: AgentMetricSources): AgentMetrics {
  const registry = new Registry()
  const { device, version, provider, measure } = sources
  const { collectedInfo } = declareMetrics(registry)
  collectedInfo(
    `${prefix}_info`,
    ': the device, its agent and what computes its model',
    ['device', 'version', 'provider'],
    () => [{ device, version, provider: provider() ?? 'none' }],
  )
  deviceMetrics(registry, prefix, measure)
  const answers = answerMetrics(registry, defaultTokensPerS, prefix)
  const onFigures = hatMetrics(registry)
  return {
    onAnswer(asked) {
      const answer = answers.onAnswer(asked)
      let figures: (() => EndpointFigures) | undefined
      return {
        tokens(count, nowMs, delta) {
          figures = delta.figures?.bind(delta) ?? figures
          return answer.tokens(count, nowMs, delta)
        },
        ended(nowMs, how) {
          answer.ended(nowMs, how)
          if (figures) onFigures(asked.model.name, figures())
        },
      }
    },
    list: () => listMetrics(registry),
    text: async () => `${await registry.metrics()}\n${await processMetrics().metrics()}`,
  }
}

/** What ended answers of the split model took: the first three named as vLLM names those of speculative decoding. */
function hatMetrics(registry: Registry) {
  const { counter, histogram } = declareMetrics(registry)
  const label = ['model_name'] as const
  const verifications = counter(`${prefix}_spec_decode_num_drafts_total`, 'Verifications, with a draft or without.', label)
  const drafted = counter(`${prefix}_spec_decode_num_draft_tokens_total`, 'Tokens drafted.', label)
  const accepted = counter(`${prefix}_spec_decode_num_accepted_tokens_total`, 'Drafted tokens that were accepted.', label)
  const length = histogram(`${prefix}_accept_length`, 'Tokens per verification of an answer, mean.', lengthBuckets, label)
  const sent = counter(`${prefix}_hat_sent_bytes_total`, 'Bytes that the answers sent to bridges.', label)
  const received = counter(`${prefix}_hat_received_bytes_total`, 'Bytes that they received.', label)
  const failovers = counter(`${prefix}_hat_failovers_total`, 'Times that an answer moved to another session.', label)
  return (model: string, figures: EndpointFigures): void => {
    const name = { model_name: model }
    verifications.inc(name, figures.rounds)
    drafted.inc(name, figures.drafted)
    accepted.inc(name, figures.accepted)
    if (figures.acceptLength !== null) length.observe(name, figures.acceptLength)
    sent.inc(name, figures.bytesUp)
    received.inc(name, figures.bytesDown)
    failovers.inc(name, figures.failovers)
  }
}
