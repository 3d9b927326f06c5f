import type { SmallModelSpeed } from './state.ts'

/** What a device has measured of one small model; core/wire/protocol/profile.ts describes the fields. */
export interface MeasuredSmallModel {
  readonly model: string
  readonly ttftMs: number
  readonly tpotMs: number
  readonly loadMs: number
  readonly parallel: readonly (readonly [sequences: number, speedup: number])[]
  readonly tokensPerLlmToken: number
  readonly prefillTokensPerS?: number | undefined
  readonly contextTokens?: number | undefined
}

/** One expansion, as the device reports it. */
export interface ExpansionRun {
  /** That were decoded together. */
  readonly sequences: number
  /** In all sequences, in tokens of the small model. */
  readonly tokens: number
  /** Of prefill and decoding. */
  readonly tookMs: number
}

/** Weight of a run in the correction. */
const weight = 0.25
/** A run that a busy or suspended device has delayed says little about the next: the factor stays within this ratio of 1. */
const maxFactor = 16

/** p(n): straight lines between the measured points, from p(1) = 1; constant after the last. Never below 1. */
export function speedupAt(parallel: MeasuredSmallModel['parallel'], sequences: number): number {
  let [n, p]: readonly [number, number] = [1, 1]
  for (const [nextN, nextP] of parallel) {
    if (nextN <= n) continue
    if (sequences < nextN) return Math.max(1, p + ((nextP - p) * (sequences - n)) / (nextN - n))
    ;[n, p] = [nextN, nextP]
  }
  return Math.max(1, p)
}

/**
 * The ratio of real to measured time, corrected by one more run.
 * @param factor before the run; 1 before the first
 */
export function correctedFactor(factor: number, measured: MeasuredSmallModel, run: ExpansionRun): number {
  const { ttftMs, tpotMs, parallel } = measured
  const stepped = Math.max(0, run.tokens - run.sequences)
  const expectedMs = ttftMs + (stepped * tpotMs) / speedupAt(parallel, run.sequences)
  if (!(run.tokens > 0 && run.tookMs > 0 && expectedMs > 0)) return factor
  return towards(factor, run.tookMs / expectedMs)
}

/**
 * The ratio of real to measured time, after a job that has failed or was given up: it would have taken longer, so that the time until
 * then bounds the ratio from below (a censored observation). It never makes the factor smaller.
 * @param overrun time until then over the time that was predicted with this factor
 */
export function exceededFactor(factor: number, overrun: number): number {
  return overrun > 1 ? Math.max(factor, towards(factor, factor * overrun)) : factor
}

function towards(factor: number, observed: number): number {
  const bounded = Math.min(maxFactor, Math.max(1 / maxFactor, observed))
  // In the logarithm, so that half and twice the expected time weigh the same.
  return factor ** (1 - weight) * bounded ** weight
}

/** @param factor of `correctedFactor` */
export function speedOf(measured: MeasuredSmallModel, factor = 1): SmallModelSpeed {
  const { model, ttftMs, tpotMs, loadMs, parallel, tokensPerLlmToken, prefillTokensPerS, contextTokens } = measured
  return {
    model,
    loadS: loadMs / 1_000,
    ttftS: (factor * ttftMs) / 1_000,
    tpotS: (factor * tokensPerLlmToken * tpotMs) / 1_000,
    parallel,
    ...(prefillTokensPerS !== undefined && { prefillS: (factor * tokensPerLlmToken) / prefillTokensPerS }),
    ...(contextTokens !== undefined && { contextTokens: Math.floor(contextTokens / tokensPerLlmToken) }),
    ability: undefined,
  }
}
