import type { Registry } from 'prom-client'
import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'
import { declareMetrics } from '../../core/answer/metrics/declare-metrics.ts'

const secondsBuckets = [0.1, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 60, 120]
const shareBuckets = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]

export interface SketchMetrics {
  /** An answer that may be sketched has ended. @param expansionMs undefined: no device has expanded any of it */
  onSketched(model: string, figures: PiceFigures, expansionMs: number | undefined): void
}

/** How answers were planned that devices may expand, and what became of the plans (PICE). */
export function sketchMetrics(registry: Registry): SketchMetrics {
  const { counter, histogram } = declareMetrics(registry)
  const labels = (...others: string[]) => ['model_name', ...others]
  const answers = counter(
    'brim_sketch_plans_total',
    'Answers that might be sketched, by plan (full or sketch) and why the LLM has written all or some of it (none: it has not).',
    labels('mode', 'reason'),
  )
  const tokens = counter(
    'brim_sketch_tokens_total',
    'Tokens generated for these answers, by side: cloud or edge.',
    labels('side'),
  )
  const sentences = counter('brim_sketch_sentences_total', 'Sentences of sketches, by writer: device or llm.', labels('writer'))
  const expansion = histogram(
    'brim_sketch_expansion_seconds',
    'From a complete sketch to the last sentence of a device.',
    secondsBuckets,
    labels(),
  )
  const confidence = histogram(
    'brim_sketch_confidence',
    'Mean confidence of the sentences of an answer (PICE Eq. 3).',
    shareBuckets,
    labels(),
  )
  return {
    onSketched(model, figures, expansionMs) {
      const name = { model_name: model }
      answers.inc({ ...name, mode: figures.mode, reason: figures.reason ?? 'none' })
      tokens.inc({ ...name, side: 'cloud' }, figures.cloudTokens)
      tokens.inc({ ...name, side: 'edge' }, figures.edgeTokens)
      sentences.inc({ ...name, writer: 'device' }, figures.expandedSentences)
      sentences.inc({ ...name, writer: 'llm' }, figures.completedSentences)
      if (expansionMs !== undefined) expansion.observe(name, expansionMs / 1_000)
      if (figures.confidence !== null) confidence.observe(name, figures.confidence)
    },
  }
}
