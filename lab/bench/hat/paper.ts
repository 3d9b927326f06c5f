import type { StrategyName } from './strategies.ts'
import type { WorkloadName } from './workload.ts'

/**
 * Figures of the HAT paper for comparison, with a pipeline of P = 4 stages unless noted. Its short workload is SpecBench on
 * Vicuna-7B, its long one CNN/DM on Vicuna-13B. Times are of other machines; only ratios can be compared.
 */

type Compared = Extract<StrategyName, 'hat' | 'u-sarathi' | 'u-medusa' | 'u-shape'>

/** TTFT in ms at 6 (SpecBench) and 4 (CNN/DM) requests per second: Figs. 6 and 7. */
export const paperTtftMs: Readonly<Record<WorkloadName, Readonly<Record<Compared, number>>>> = {
  short: { hat: 384.2, 'u-sarathi': 609.2, 'u-medusa': 644.6, 'u-shape': 646.2 },
  long: { hat: 1_027.4, 'u-sarathi': 1_750.6, 'u-medusa': 2_214.8, 'u-shape': 2_140.8 },
}

/** TBT of HAT divided by that of the other strategy, at 4 requests per second: section 4.2. */
export const paperTbtOfHatOver: Readonly<Record<WorkloadName, Readonly<Record<Exclude<Compared, 'hat'>, number>>>> = {
  short: { 'u-sarathi': 0.681, 'u-medusa': 0.775, 'u-shape': 0.587 },
  long: { 'u-sarathi': 0.592, 'u-medusa': 0.228, 'u-shape': 0.253 },
}

/** Mean and standard deviation of a cloud step's delay on each GPU, in ms: Fig. 8. */
export const paperStepMs: Readonly<Record<WorkloadName, Readonly<Record<Compared, readonly [number, number]>>>> = {
  short: { hat: [6.8, 1.3], 'u-sarathi': [6.5, 1.2], 'u-medusa': [10, 8.1], 'u-shape': [8.4, 7.1] },
  long: { hat: [12.4, 1.1], 'u-sarathi': [11.9, 3.4], 'u-medusa': [23.3, 27.5], 'u-shape': [18.9, 24.6] },
}

/** One device: accept length and decode speed-up, Table IV. */
export const paperAlone: Readonly<Record<WorkloadName, Readonly<Record<'hat' | 'u-medusa', readonly [number, number]>>>> = {
  short: { 'u-medusa': [1.89, 1.41], hat: [2.06, 1.65] },
  long: { 'u-medusa': [1.75, 1.45], hat: [1.98, 1.6] },
}

/** TTFT and TBT in ms by the parts in use: Table V. */
export const paperAblation: Readonly<Record<WorkloadName, Readonly<Record<string, readonly [number, number]>>>> = {
  short: {
    none: [655.6, 52.3],
    PC: [384, 39.4],
    SD: [655.3, 38.3],
    'SD+PD': [657.9, 33.8],
    'SD+PC': [384.3, 30.6],
    'SD+PC+PD': [384.2, 26.4],
  },
  long: {
    none: [1_989, 128.1],
    PC: [1_038.7, 74.2],
    SD: [1_993.5, 84.3],
    'SD+PD': [1_992.1, 74.9],
    'SD+PC': [1_039.1, 49.3],
    'SD+PC+PD': [1_039.9, 43.5],
  },
}

/** Shares of U-shape's TTFT for a prompt of 2,000 tokens, in percent: section 2.2. */
export const paperShares = { device: 2.5, network: 89.6, cloud: 7.8 }
