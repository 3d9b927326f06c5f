import type { BrimError } from '../../kit/base/errors.ts'
import { quantileWithZeros } from '../../policy/estimate/quantile.ts'
import type { AnswerPiece } from './answer-text.ts'
import type { AnswerDelta, TextDelta } from './endpoint.ts'
import { type DiscoFigures, type EndpointFigures, noFigures, type PiceFigures } from './figures.ts'
import type { AnswerSpeed } from './meter.ts'

/** Consecutive tokens of the answer that one source chose. */
interface SourceSpan {
  /** Index of its first token in the answer. */
  readonly from: number
  readonly tokens: number
  readonly source: AnswerDelta['source']['kind']
  readonly model: string
  /** The device that wrote them, where a device expanded a sketch. */
  readonly device?: string
}

/** How an answer was made: the `brim` field of responses. The TTFT is that of the first text. */
export interface AnswerReport extends EndpointFigures {
  /** The source of its first token. */
  readonly mode: SourceSpan['source']
  readonly ttftMs: number
  /** Gaps between delivered tokens; null below two tokens. Tokens of one delta arrive together: gap 0. */
  readonly tbtMs: { readonly p50: number | null; readonly p95: number | null }
  /** Mean time per token after the first; null below two tokens. */
  readonly tpotMs: number | null
  readonly sources: readonly SourceSpan[]
  /** Why the fallback model continued the answer; null where it did not. */
  readonly fallback: { readonly code: string; readonly message: string } | null
  /** Absent where the request was not planned by PICE. */
  readonly pice?: PiceFigures
  /** Absent where one endpoint alone answers. */
  readonly disco?: DiscoFigures
}

/** The speed of the model that made an answer. Where two took part, the time per token is neither's. */
export function answerSpeedOf({ report, tokens }: { report: AnswerReport; tokens: number }): AnswerSpeed {
  const { sources, tpotMs, disco } = report
  const [source] = sources
  const isOnDevice = source?.source === 'hat' || source?.source === 'slm'
  // One that was delivered at its reader's rate, or that a device's server has made, tells nothing of the device's.
  const isMeasured = sources.length === 1 && (!disco || (disco.tokensPerS === 0 && isOnDevice))
  return { model: source?.model ?? '', tpotMs: isMeasured ? tpotMs : null, tokens }
}

/** Builds a report, delta by delta. */
export class ReportBuilder {
  readonly #acceptedMs: number
  readonly #sources: SourceSpan[] = []
  /** Of each delta after the first token; further tokens of a delta come without a gap. */
  readonly #gapsMs: number[] = []
  #tokensWithoutGap = 0
  #figures: AnswerDelta['figures']
  #cause: BrimError | undefined
  #pice: TextDelta['pice']
  #disco: AnswerDelta['disco']
  #tokens = 0
  #firstTokenMs: number | undefined
  #firstTextMs: number | undefined
  #lastMs = 0

  /** @param acceptedMs when the request came */
  constructor(acceptedMs: number) {
    this.#acceptedMs = acceptedMs
  }

  /** @param piece what the answer takes of the delta */
  add(delta: AnswerDelta, { text, tokens }: AnswerPiece, nowMs: number): void {
    if ('text' in delta) this.#pice = delta.pice ?? this.#pice
    // A sketch is no part of the answer.
    if (tokens === 0 && text === '' && delta.end === undefined) return
    const hasGap = tokens > 0 && this.#tokens > 0
    if (hasGap) this.#gapsMs.push(nowMs - this.#lastMs)
    this.#tokensWithoutGap += Math.max(0, tokens - 1)
    this.#count(delta, tokens)
    this.#figures = delta.figures ?? this.#figures
    this.#cause = delta.cause ?? this.#cause
    this.#disco = delta.disco ?? this.#disco
    this.#lastMs = nowMs
    this.#firstTokenMs ??= nowMs
    if (text !== '') this.#firstTextMs ??= nowMs
  }

  build(): AnswerReport {
    const gaps = this.#gapsMs
    const zeros = this.#tokensWithoutGap
    const isTimed = gaps.length + zeros > 0
    const gapAt = (level: number) => (isTimed ? quantileWithZeros(gaps, zeros, level) : null)
    return {
      ...(this.#figures?.() ?? noFigures),
      mode: this.#sources[0]?.source ?? 'hat',
      ttftMs: (this.#firstTextMs ?? this.#firstTokenMs ?? 0) - this.#acceptedMs,
      tbtMs: { p50: gapAt(0.5), p95: gapAt(0.95) },
      tpotMs: isTimed ? gaps.reduce((sum, gap) => sum + gap, 0) / (gaps.length + zeros) : null,
      sources: this.#sources,
      fallback: this.#cause ? { code: this.#cause.code, message: this.#cause.message } : null,
      ...(this.#pice && { pice: this.#pice() }),
      ...(this.#disco && { disco: this.#disco() }),
    }
  }

  #count({ source }: AnswerDelta, tokens: number): void {
    const { kind, model } = source
    const device = 'device' in source ? source.device : undefined
    const last = this.#sources.at(-1)
    if (last?.source === kind && last.model === model.name && last.device === device)
      this.#sources[this.#sources.length - 1] = { ...last, tokens: last.tokens + tokens }
    else
      this.#sources.push({
        from: this.#tokens,
        tokens,
        source: kind,
        model: model.name,
        ...(device === undefined ? {} : { device }),
      })
    this.#tokens += tokens
  }
}
