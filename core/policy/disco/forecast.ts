import type { SideWork } from './controller-plan.ts'
import { costOf } from './costs.ts'
import type { TokenCosts } from './state.ts'

/** What is known of a way of answering, before the answer. Times in ms. */
export interface KnownWay {
  readonly name: string
  /** To its first token. Infinity: it would not begin. */
  readonly firstMs: number
  readonly msPerToken: number
  /** Undefined: a price is unknown. */
  readonly costs: TokenCosts | undefined
  /** Whether its times have been measured at all. */
  readonly isKnown: boolean
}

/** What one answer would be by one way. Times in ms after the request. */
export interface Forecast extends Pick<KnownWay, 'name' | 'isKnown'> {
  readonly firstMs: number
  /** All of it is written. */
  readonly endMs: number
  /** That its reader waits: for the first token, and then for those that it could read already. */
  readonly waitMs: number
  /** Undefined: a price is unknown. */
  readonly dollars: number | undefined
}

/** @param tokensPerS of the reader; 0: the answer counts when it is complete */
export function forecastOf(way: KnownWay, work: SideWork, tokensPerS: number): Forecast {
  const { name, firstMs, msPerToken, costs, isKnown } = way
  const endMs = firstMs + msPerToken * work.tokens
  const readMs = tokensPerS > 0 ? (1_000 * work.tokens) / tokensPerS : 0
  return { name, isKnown, firstMs, endMs, waitMs: Math.max(firstMs, endMs - readMs), dollars: costs && costOf(costs, work) }
}

/** Waits that are as good as the shortest: estimates tell no more, and no reader feels less. */
const asShort = { share: 0.1, ms: 100 }

/**
 * What gives a reader most: of the ways whose waits are as good as the shortest, the cheapest; the first one where a price is unknown.
 * @param forecasts at least one, those to be preferred first. @returns its place
 */
export function bestForecast(forecasts: readonly Forecast[]): number {
  const shortestMs = forecasts.reduce((min, { waitMs }) => Math.min(min, waitMs), Number.POSITIVE_INFINITY)
  const limitMs = (1 + asShort.share) * shortestMs + asShort.ms
  const short = forecasts.filter(({ waitMs }) => waitMs <= limitMs)
  const isPriced = short.every(({ dollars }) => dollars !== undefined)
  const best = isPriced ? short.reduce((a, b) => (b.dollars! < a.dollars! ? b : a)) : short[0]!
  return forecasts.indexOf(best)
}
