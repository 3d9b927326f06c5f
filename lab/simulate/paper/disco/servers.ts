import type { z } from 'zod'
import type { TokenCosts } from '../../../../core/policy/disco/state.ts'
import type { Distribution } from '../../scenario/distribution.ts'
import { servicePrices } from './profiles.ts'

/** A stand-in for one of the paper's four recordings, which are not published. */
export interface PaperServer {
  readonly name: string
  readonly ttftMs: z.input<typeof Distribution>
  readonly price: TokenCosts
}

/** σ of the logarithm of slow starts. */
const tailSigma = 0.5

/**
 * A body and a tail of starts that are some times as slow, both log-normal. The body's median is MAE over MAPE of the paper's
 * predictors (Table 5); its σ is what gives a moving average over ten starts the MAPE of Table 5. Share and slowness of the tail
 * are those whose cuts of P99 come nearest to the device-limited row of Table 2: three of its six cells per server.
 */
function server(
  name: string,
  { medianMs, sigma, slowShare, slowTimes }: Record<'medianMs' | 'sigma' | 'slowShare' | 'slowTimes', number>,
  price: TokenCosts | undefined,
): PaperServer {
  const body = { share: 1 - slowShare, median: medianMs, sigma }
  const tail = { share: slowShare, median: slowTimes * medianMs, sigma: tailSigma }
  return { name, ttftMs: { kind: 'mixture', parts: [body, tail] }, price: price! }
}

export const paperServers: readonly PaperServer[] = [
  server('GPT', { medianMs: 401, sigma: 0.19, slowShare: 0.07, slowTimes: 2.4 }, servicePrices['GPT-4o-mini']),
  server('LLaMA', { medianMs: 784, sigma: 0.35, slowShare: 0.04, slowTimes: 3 }, servicePrices['LLaMA-3.1-70b']),
  server('DeepSeek', { medianMs: 1_424, sigma: 0.23, slowShare: 0.08, slowTimes: 2 }, servicePrices['DeepSeek-V2.5']),
  server('Command', { medianMs: 231, sigma: 0.27, slowShare: 0.05, slowTimes: 4 }, servicePrices.Command),
]

/** Between a server's tokens: faster than any reader, which is all that counts (§3). */
export const serverTokenMs = 20

/**
 * Prompts of Alpaca: instructions, and those with an input. Fitted to the quantiles of 665 of them at 4.66 bytes a token (the
 * paper's 17 bits and 54.4 %): P50 15, P90 30, P95 41, P99 87, mean 18.7.
 */
export const promptTokens: z.input<typeof Distribution> = {
  kind: 'mixture',
  parts: [
    { share: 0.92, median: 14.6, sigma: 0.4 },
    { share: 0.08, median: 40, sigma: 0.6 },
  ],
}
