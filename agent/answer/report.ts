import type { BrimError } from '../../core/base/errors.ts'
import { median, quantile } from '../../core/base/statistics.ts'
import { type HatSummary, noSession } from '../hat/summary.ts'
import type { AnswerRound } from './fallback.ts'
import type { AnswerSpeed } from './meter.ts'

/** A run of the answer's tokens that one model chose. */
export interface AnswerSource {
  /** Its first token's place in the answer. */
  readonly from: number
  readonly tokens: number
  /** 'hat': the split model, with a bridge; 'slm': the device's own small model. */
  readonly source: AnswerRound['source']
  readonly model: string
}

/**
 * How the answer came about: the `brim` field of responses and last chunks. Its TTFT is that of the first text. Where HAT
 * gave no token, what it had sent of the prompt is not counted.
 */
export interface Report extends Omit<HatSummary, 'tokens' | 'prefillMs' | 'tbtMs'> {
  /** Who gave its first token. */
  readonly mode: AnswerRound['source']
  /** Gaps between delivered tokens; null below two tokens. Tokens of one round come together: gap 0. */
  readonly tbtMs: { readonly p50: number | null; readonly p95: number | null }
  /** Mean time per token after the first; null below two tokens. */
  readonly tpotMs: number | null
  /** All tokens, in their order. */
  readonly sources: readonly AnswerSource[]
  /** Why the device's own model went on; null where it did not. */
  readonly fallback: { readonly code: string; readonly message: string } | null
  /** Each in the vocabulary of its source. */
  readonly tokenIds?: readonly number[]
}

/** What it shows of its model: where two took part, the time per token is neither's. */
export function speedOf({ sources, tpotMs }: Pick<Report, 'sources' | 'tpotMs'>, tokens: number): AnswerSpeed {
  return { model: sources[0]?.model ?? '', tpotMs: sources.length === 1 ? tpotMs : null, tokens }
}

/** What happened while an answer came. */
export class AnswerCourse {
  readonly #acceptedMs: number
  readonly #sources: AnswerSource[] = []
  /** Before tokens of the local model; those before HAT's are the session's to tell. */
  readonly #localGapsMs: number[] = []
  #summary: (() => HatSummary) | undefined
  #cause: BrimError | undefined
  #tokens = 0
  #firstTokenMs: number | undefined
  #firstTextMs: number | undefined
  #lastMs = 0

  /** @param acceptedMs when the request came */
  constructor(acceptedMs: number) {
    this.#acceptedMs = acceptedMs
  }

  /** @param tokens of the round that are part of the answer @param text that came with them */
  took(round: AnswerRound, tokens: number, text: string, nowMs: number): void {
    if (round.source === 'hat') {
      this.#summary = round.summary
    } else {
      this.#cause = round.cause
      if (this.#tokens > 0) this.#localGapsMs.push(nowMs - this.#lastMs)
    }
    this.#count(round, tokens)
    this.#lastMs = nowMs
    this.#firstTokenMs ??= nowMs
    if (text !== '') this.#firstTextMs ??= nowMs
  }

  /** The answer has ended. */
  report(tokenIds: readonly number[] | undefined): Report {
    const { tokens: _tokens, prefillMs: _prefillMs, tbtMs, ...hat } = this.#summary?.() ?? noSession
    const gaps = [...tbtMs, ...this.#localGapsMs].slice(0, this.#tokens - 1)
    const some = gaps.length > 0
    const { code, message } = this.#cause ?? {}
    return {
      ...hat,
      mode: this.#sources[0]?.source ?? 'hat',
      ttftMs: (this.#firstTextMs ?? this.#firstTokenMs ?? 0) - this.#acceptedMs,
      tbtMs: { p50: some ? median(gaps) : null, p95: some ? quantile(gaps, 0.95) : null },
      tpotMs: some ? gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length : null,
      sources: this.#sources,
      fallback: code === undefined || message === undefined ? null : { code, message },
      ...(tokenIds ? { tokenIds } : {}),
    }
  }

  #count({ source, model }: AnswerRound, tokens: number): void {
    const last = this.#sources.at(-1)
    if (last?.source === source) this.#sources[this.#sources.length - 1] = { ...last, tokens: last.tokens + tokens }
    else this.#sources.push({ from: this.#tokens, tokens, source, model })
    this.#tokens += tokens
  }
}
