import type { Registry } from 'prom-client'
import { drainRate } from '../../kit/base/reader-rates.ts'
import { readingExperience } from '../../policy/tokenflow/quality.ts'
import type { AnswerDelta } from '../endpoint/endpoint.ts'
import type { ObservedAnswer, ObservedRequest } from '../endpoint/observe.ts'
import { declareMetrics } from './declare-metrics.ts'

/** Buckets of vLLM's metrics, so that dashboards and alerts carry over. */
const ttftBuckets = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
const gapBuckets = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const latencyBuckets = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960]

const label = ['model_name'] as const

export interface AnswerMetrics {
  onAnswer(asked: ObservedRequest): ObservedAnswer
}

/** Of an answer: when it was asked for, by the clock of the observer, and how long it was. */
export interface AnswerSize {
  readonly atMs: number
  readonly promptTokens: number
  readonly outputTokens: number
}

/**
 * What clients of a bridge or an agent experience.
 * @param defaultTokensPerS assumed for readers that state no rate
 * @param prefix of the metrics' names
 * @param onEnded called with each answer that has tokens, when it ends
 */
export function answerMetrics(
  registry: Registry,
  defaultTokensPerS: number,
  prefix: string,
  onEnded?: (size: AnswerSize) => void,
): AnswerMetrics {
  const { counter, gauge, histogram } = declareMetrics(registry)
  const requests = counter(`${prefix}_requests_total`, 'Answers that ended, by reason: stop, length, abort or error.', [
    ...label,
    'finished_reason',
  ])
  const running = gauge(`${prefix}_num_requests_running`, 'Answers that have begun and not ended.', label)
  const waiting = gauge(`${prefix}_num_requests_waiting`, 'Requests that wait for their first token.', label)
  const promptTokens = counter(`${prefix}_prompt_tokens_total`, 'Tokens of prompts whose answers have begun.', label)
  const generated = counter(
    `${prefix}_generation_tokens_total`,
    'Tokens of answers, whether they are read in time or not.',
    label,
  )
  const effective = counter(
    `${prefix}_effective_tokens_total`,
    'Tokens of ended answers, weighted by how soon they are read: its rate is the effective throughput (TokenFlow Eq. 1).',
    label,
  )
  const stalls = counter(
    `${prefix}_reader_stalls_total`,
    'Times that a reader had read everything before the next token came.',
    label,
  )
  const stalled = counter(`${prefix}_reader_stall_seconds_total`, 'Time that readers waited so.', label)
  const ttft = histogram(`${prefix}_time_to_first_token_seconds`, 'From the request to its first token.', ttftBuckets, label)
  const gap = histogram(`${prefix}_inter_token_latency_seconds`, 'Between the tokens of an answer (TBT).', gapBuckets, label)
  const latency = histogram(`${prefix}_e2e_request_latency_seconds`, 'From the request to its last token.', latencyBuckets, label)

  function onAnswer({ model, request, signal, atMs }: ObservedRequest): ObservedAnswer {
    const name = { model_name: model.name }
    const sentMs: number[] = []
    let toldByServer = 0
    const counted = { promptTokens: 0, outputTokens: 0 }
    let holder = waiting
    holder.inc(name)
    return {
      tokens(tokens, nowMs, delta) {
        let prompt: Promise<void> | undefined
        if (holder === waiting && tokens > 0) {
          waiting.dec(name)
          holder = running
          running.inc(name)
          ttft.observe(name, (nowMs - atMs) / 1_000)
          prompt = countPrompt(delta)
        }
        if ('text' in delta) toldByServer = delta.promptTokens ?? toldByServer
        // Tokens of one delta arrive together. What a server counts beyond its text has no time of arrival.
        const arrived = 'text' in delta ? Math.min(tokens, delta.text.length) : tokens
        for (let at = 0; at < arrived; at++) {
          if (sentMs.length > 0) gap.observe(name, (nowMs - sentMs.at(-1)!) / 1_000)
          sentMs.push(nowMs)
        }
        counted.outputTokens += tokens
        generated.inc(name, tokens)
        return prompt
      },
      ended(nowMs, how) {
        holder.dec(name)
        promptTokens.inc(name, toldByServer)
        if (counted.outputTokens > 0) onEnded?.({ ...counted, atMs, promptTokens: counted.promptTokens + toldByServer })
        requests.inc({ ...name, finished_reason: how })
        latency.observe(name, (nowMs - atMs) / 1_000)
        // 0 asks for tokens as fast as they come.
        const answer = { tokensPerS: drainRate(request.tokensPerS) ?? defaultTokensPerS, requestedMs: atMs, sentMs }
        const experience = readingExperience(answer)
        effective.inc(name, experience.weightedTokens)
        stalls.inc(name, experience.stalls)
        stalled.inc(name, experience.stalledMs / 1_000)
      },
    }

    /** Known without tokenising again, because the endpoint has done so. Another server tells it with the last delta. */
    async function countPrompt(delta: AnswerDelta): Promise<void> {
      if ('text' in delta) return
      counted.promptTokens = (await request.prompt.idsFor(delta.source.model, request.client, signal)).length
      promptTokens.inc(name, counted.promptTokens)
    }
  }

  return { onAnswer }
}
