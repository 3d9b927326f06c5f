import type { ReportedSide } from '../../../../core/policy/disco/state.ts'

/**
 * Table 2, cuts of P99 in per cent, for Pixel 7 Pro with Bloom-1.1B, with Bloom-560M, and Xiaomi 14. **Reading**: the paper's
 * columns stand in the opposite order. By the paper's own algorithm a faster device gains less from a server beside it, and spares
 * more of a server's tail. All eight rows agree with that once they are turned round ("tail TTFT remains constant" is then that of
 * the fastest device beside the slowest server).
 */
export const tailCuts: Readonly<Record<string, Readonly<Record<ReportedSide, readonly [number, number, number]>>>> = {
  GPT: { server: [44.04, 37.41, 23.85], device: [16.32, 21.48, 26.39] },
  LLaMA: { server: [26.29, 23.09, 11.08], device: [21.29, 29.3, 35.67] },
  DeepSeek: { server: [15.53, 3.88, 0], device: [25.08, 28.01, 30.91] },
  Command: { server: [52.23, 50.93, 47.93], device: [24.42, 31.53, 34.78] },
}

/** Table 3: `delay_num` as mean and P99, and P99 of TBT in seconds. */
export const migrations: Readonly<Record<string, Readonly<Record<ReportedSide, readonly [number, number, number]>>>> = {
  GPT: { server: [4.21, 9.4, 0.209], device: [6.59, 6.59, 0.217] },
  LLaMA: { server: [5.53, 11, 0.209], device: [10.01, 10.01, 0.217] },
  DeepSeek: { server: [8.13, 11, 0.209], device: [17.17, 17.17, 0.217] },
  Command: { server: [3.25, 8, 0.209], device: [8.54, 8.54, 0.217] },
}

/** Fig. 7, as the text states it: the largest cut of cost by migration, in per cent (§5.2). */
export const largestCostCut: Readonly<Record<ReportedSide, number>> = { device: 72.7, server: 83.6 }
