/**
 * Figures that the HAT paper prints, with a pipeline of P = 4 stages unless noted. Its short prompts are SpecBench's on
 * Vicuna-7B, its long ones CNN/DM's on Vicuna-13B.
 */

export const datasets = ['short', 'long'] as const
export type Dataset = (typeof datasets)[number]
export const methods = ['hat', 'u-sarathi', 'u-medusa', 'u-shape'] as const
export type Method = (typeof methods)[number]

type OfMethods = Readonly<Record<Method, number>>
type OverOthers = Readonly<Record<Exclude<Method, 'hat'>, number>>

/** Tokens of prompts: Table III. */
export const paperPrompts: Readonly<Record<Dataset, { readonly mean: number; readonly deviation: number }>> = {
  short: { mean: 351.2, deviation: 397.3 },
  long: { mean: 1_036.6, deviation: 511.8 },
}

/** TTFT in ms at 6 (SpecBench) and 4 (CNN/DM) requests per second: Figs. 6 and 7. */
export const paperTtftMs: Readonly<Record<Dataset, OfMethods>> = {
  short: { hat: 384.2, 'u-sarathi': 609.2, 'u-medusa': 644.6, 'u-shape': 646.2 },
  long: { hat: 1_027.4, 'u-sarathi': 1_750.6, 'u-medusa': 2_214.8, 'u-shape': 2_140.8 },
}

/** TBT of HAT divided by that of the other strategy, at 4 requests per second: section 4.2. */
export const paperTbtOfHatOver: Readonly<Record<Dataset, OverOthers>> = {
  short: { 'u-sarathi': 0.681, 'u-medusa': 0.775, 'u-shape': 0.587 },
  long: { 'u-sarathi': 0.592, 'u-medusa': 0.228, 'u-shape': 0.253 },
}

/** Mean and standard deviation of a cloud step's delay on each GPU, in ms: Fig. 8. */
export const paperStepMs: Readonly<Record<Dataset, Readonly<Record<Method, readonly [number, number]>>>> = {
  short: { hat: [6.8, 1.3], 'u-sarathi': [6.5, 1.2], 'u-medusa': [10, 8.1], 'u-shape': [8.4, 7.1] },
  long: { hat: [12.4, 1.1], 'u-sarathi': [11.9, 3.4], 'u-medusa': [23.3, 27.5], 'u-shape': [18.9, 24.6] },
}

/** One device: accept length and decode speed-up, Table IV. */
export const paperAlone: Readonly<Record<Dataset, Readonly<Record<'hat' | 'u-medusa', readonly [number, number]>>>> = {
  short: { 'u-medusa': [1.89, 1.41], hat: [2.06, 1.65] },
  long: { 'u-medusa': [1.75, 1.45], hat: [1.98, 1.6] },
}

/** TTFT and TBT in ms by the parts in use: Table V. */
export const paperAblation: Readonly<Record<Dataset, Readonly<Record<string, readonly [number, number]>>>> = {
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

/** Growth of TBT from 4 to 9 requests per second, short prompts: section 4.2. */
export const paperTbtGrowth: OfMethods = { hat: 1.053, 'u-sarathi': 1.078, 'u-medusa': 1.645, 'u-shape': 1.44 }

/** TTFT and TBT in ms with P = 1, short prompts: Fig. 11. */
export const paperOneStage: Readonly<Record<Method, readonly [number, number]>> = {
  hat: [431.4, 39.2],
  'u-sarathi': [1_080, 67.5],
  'u-medusa': [727.1, 65.3],
  'u-shape': [694, 88.6],
}

/** HAT divided by the other method, long prompts: Fig. 12 in section 4.5. */
export const paperLongOver: Readonly<Record<'ttft' | 'tbt', OverOthers>> = {
  ttft: { 'u-sarathi': 0.631, 'u-medusa': 0.593, 'u-shape': 0.599 },
  tbt: { 'u-sarathi': 0.677, 'u-medusa': 0.661, 'u-shape': 0.529 },
}

/** With P = 1, percent of requests within so many ms per 128 tokens of the prompt: Figs. 9 and 10. */
export const paperPrefillSla: Readonly<Record<Dataset, { readonly limitMs: number; readonly percent: OfMethods }>> = {
  short: { limitMs: 350, percent: { hat: 100, 'u-sarathi': 76.8, 'u-medusa': 78.8, 'u-shape': 86.6 } },
  long: { limitMs: 300, percent: { hat: 100, 'u-sarathi': 64.7, 'u-medusa': 68.9, 'u-shape': 76.3 } },
}

/** With P = 1, the quantile over requests of the ms per 10 tokens: Figs. 9 and 10. */
export const paperDecodeSla: Readonly<Record<Dataset, { readonly quantile: number; readonly ms: OfMethods }>> = {
  short: { quantile: 0.5, ms: { hat: 489.3, 'u-sarathi': 565, 'u-medusa': 659.8, 'u-shape': 786.1 } },
  long: { quantile: 0.9, ms: { hat: 1_352.7, 'u-sarathi': 1_561.5, 'u-medusa': 3_109.6, 'u-shape': 3_357.8 } },
}

/** TTFT of U-shape in ms for one prompt of 2,000 tokens, and its parts: section 2.3. */
export const paperLongest = { ttft: 3_570, device: 90, cloud: 280, network: 3_200 }

/** Shares of U-shape's TTFT for a prompt of 2,000 tokens, in percent: section 2.2. */
export const paperShares = { device: 2.5, network: 89.6, cloud: 7.8 }
