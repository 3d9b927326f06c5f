import { z } from 'zod'
import type { ReportedSide, TokenCosts } from '../../../../core/policy/disco/state.ts'
import type { MeasuredRates } from '../../hardware/board.ts'
import { boardNamed } from '../../hardware/presets/presets.ts'
import { publishedAs, readPaper } from '../paper-file.ts'

export const paper = readPaper('disco')

/** A device with its small model (DiSCo §5.1, Table 6). */
export interface DeviceProfile extends MeasuredRates {
  readonly name: string
  /** c; the paper names none. */
  readonly startMs?: number
  /** FLOP per token: of prefill at a length of 32 tokens, the nearest to the Alpaca data, and of decoding. */
  readonly flop: TokenCosts
}

const tokenCosts = z.object({ prompt: z.number(), output: z.number() })
const device = z.object({ name: z.string(), board: z.string(), model: z.string(), flop: tokenCosts })

/** Slowest first. */
export const deviceProfiles = publishedAs(paper, 'devices', z.array(device)).map((each) => ({
  ...each,
  ...boardNamed(each.board).measured[each.model]!,
}))

/** Prices of servers in dollars per token (DiSCo Table 8). */
export const servicePrices = publishedAs(paper, 'prices', z.record(z.string(), tokenCosts))

/**
 * Dollars per FLOP of a device in experiments that limit this side (DiSCo appendix E). The paper prints "per million FLOPs",
 * with which a token would cost hundreds of dollars; per million GFLOP the costs are of the order of the prices.
 */
const dollarsPerFlop: Readonly<Record<ReportedSide, number>> = { server: 0.3e-15, device: 5e-15 }

export function deviceCosts({ flop }: DeviceProfile, constrained: ReportedSide): TokenCosts {
  const rate = dollarsPerFlop[constrained]
  return { prompt: flop.prompt * rate, output: flop.output * rate }
}

export const readingTokensPerS = paper.constants.readingTokensPerS!

/** T_d(l) = k·l + c. */
export const deviceTtftMs = ({ prefillTokensPerS, startMs = 0 }: DeviceProfile, tokens: number): number =>
  startMs + (1_000 * tokens) / prefillTokensPerS
