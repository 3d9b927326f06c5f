import type { ReportedSide, TokenCosts } from '../../../../core/policy/disco/state.ts'
import type { MeasuredRates } from '../../hardware/board.ts'
import { boardNamed } from '../../hardware/presets/presets.ts'

/** A device with its small model (DiSCo §5.1, Table 6). */
export interface DeviceProfile extends MeasuredRates {
  readonly name: string
  /** c; the paper names none. */
  readonly startMs?: number
  /** FLOP per token: of prefill at a length of 32 tokens, the nearest to the Alpaca data, and of decoding. */
  readonly flop: TokenCosts
}

export interface PaperDevice extends DeviceProfile {
  /** Presets. */
  readonly board: string
  readonly model: string
}

const paperDevice = (name: string, board: string, model: string, flop: TokenCosts): PaperDevice => ({
  name,
  board,
  model,
  flop,
  ...boardNamed(board).measured[model]!,
})

/** Slowest first. */
export const deviceProfiles: readonly PaperDevice[] = [
  paperDevice('Pixel 7 Pro, Bloom-1.1B', 'pixel-7-pro', 'bloom-1.1b', { prompt: 0.85e9, output: 0.82e9 }),
  paperDevice('Pixel 7 Pro, Bloom-560M', 'pixel-7-pro', 'bloom-560m', { prompt: 0.45e9, output: 0.42e9 }),
  paperDevice('Xiaomi 14, Qwen1.5-0.5B', 'xiaomi-14', 'qwen1.5-0.5b', { prompt: 0.39e9, output: 0.37e9 }),
]

/** Prices of servers in dollars per token (DiSCo Table 8). */
export const servicePrices: Readonly<Record<string, TokenCosts>> = {
  'DeepSeek-V2.5': { prompt: 0.14e-6, output: 0.28e-6 },
  'GPT-4o-mini': { prompt: 0.15e-6, output: 0.6e-6 },
  'LLaMA-3.1-70b': { prompt: 0.4e-6, output: 0.4e-6 },
  Command: { prompt: 1.25e-6, output: 2e-6 },
}

/**
 * Dollars per FLOP of a device in experiments that limit this side (DiSCo appendix E). The paper prints "per million FLOPs",
 * with which a token would cost hundreds of dollars; per million GFLOP the costs are of the order of the prices.
 */
const dollarsPerFlop: Readonly<Record<ReportedSide, number>> = { server: 0.3e-15, device: 5e-15 }

export function deviceCosts({ flop }: DeviceProfile, constrained: ReportedSide): TokenCosts {
  const rate = dollarsPerFlop[constrained]
  return { prompt: flop.prompt * rate, output: flop.output * rate }
}

/** Tokens per second of a reader: P99 TBT 0.209 s of the paper's Table 3. */
export const readingTokensPerS = 4.78

/** T_d(l) = k·l + c. */
export const deviceTtftMs = ({ prefillTokensPerS, startMs = 0 }: DeviceProfile, tokens: number): number =>
  startMs + (1_000 * tokens) / prefillTokensPerS
